"""ONNX Runtime sessions, one per artifact however many engines ask for it.

Weights are packed once per session and Python cannot share packed weights between sessions, so a
second session of the same artifact would cost its memory a second time.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrs.errors import ModelLoadError, RuntimeUnavailableError
from mrs.mappings import clean_mappings, give_back
from mrs.processor import read_processor
from mrs.runtime.huge_pages import collapse_resident_memory

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

_OLDEST_RUNTIME = (1, 32)
_INSTALL_HINT = "Install one: pip install 'mrs-onnx[cpu]'."


@dataclass(frozen=True)
class SessionKey:
    """What makes two sessions interchangeable.

    Attributes:
        graph: path of ``model.onnx``, its weights beside it.
        threads: threads of each operator, the calling one included.
        alone: no other session computes in this process: its threads may spin between two steps.
    """

    graph: Path
    threads: int
    alone: bool = True


@dataclass
class _Entry:
    session: InferenceSession
    users: int = 0


class SessionPool:
    """Opens sessions on first use, shares them, and closes each when its last user is gone.

    Args:
        opener: makes a session; for tests.
    """

    def __init__(self, opener: Callable[[SessionKey], InferenceSession] | None = None) -> None:
        self._opener = opener or open_session
        self._entries: dict[SessionKey, _Entry] = {}
        self._lock = threading.Lock()

    @contextmanager
    def session(self, key: SessionKey) -> Iterator[InferenceSession]:
        """The session for ``key`` for as long as the context lasts.

        Raises:
            ModelLoadError: the artifact cannot be loaded.
            RuntimeUnavailableError: ONNX Runtime is missing or too old.
        """
        session = self._acquire(key)
        try:
            yield session
        finally:
            self._release(key)

    @property
    def open_keys(self) -> frozenset[SessionKey]:
        """The sessions that are open now."""
        with self._lock:
            return frozenset(self._entries)

    def _acquire(self, key: SessionKey) -> InferenceSession:
        # Opening under the lock: a second caller must wait for the session, not open another.
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                entry = self._entries[key] = _Entry(self._opener(key))
            entry.users += 1
            return entry.session

    def _release(self, key: SessionKey) -> None:
        with self._lock:
            entry = self._entries[key]
            entry.users -= 1
            if entry.users == 0:
                del self._entries[key]


def open_session(key: SessionKey) -> InferenceSession:
    """Open a CPU session on the graph contract.

    Raises:
        ModelLoadError: ONNX Runtime refuses the graph or its weights.
        RuntimeUnavailableError: ONNX Runtime is missing or too old.
    """
    ort = _onnxruntime()
    options = _session_options(ort, key)
    try:
        # With denormals as zero, ONNX Runtime sets the floating-point unit of the thread that opens
        # its first session, for good: that must not be the caller's.
        with ThreadPoolExecutor(1) as opener:
            session: InferenceSession = opener.submit(
                ort.InferenceSession, str(key.graph), options, providers=["CPUExecutionProvider"]
            ).result()
    except Exception as error:
        # ONNX Runtime raises a dozen unrelated types here; all mean that the artifact is unusable.
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelLoadError(
            f"ONNX Runtime cannot load {key.graph}: {reason:.300}",
            hint="Check the files with 'mrs models verify', or export the model again.",
        ) from error
    collapse_resident_memory()
    # What was packed is not read again, and of an embedding the rows of a few tokens.
    give_back(clean_mappings(*key.graph.parent.glob("*.data")))
    return session


def require_runtime() -> str:
    """The version of ONNX Runtime, which is there and new enough.

    Raises:
        RuntimeUnavailableError: it is missing, cannot be loaded, or is too old.
    """
    return str(_onnxruntime().__version__)


def _session_options(ort: Any, key: SessionKey) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = key.threads
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    # Every prefill has another shape: remembered allocation patterns would only pile up.
    options.enable_mem_pattern = False
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    for entry, value in read_processor().session_entries.items():
        options.add_session_config_entry(entry, value)
    # Within a step, threads that spin are worth a lot; after it, it may be another model's turn.
    if not key.alone:
        options.add_session_config_entry("session.force_spinning_stop", "1")
    # Fatal errors alone: of all others it raises an exception, which says the same.
    options.log_severity_level = 4
    return options


def _onnxruntime() -> Any:
    """The onnxruntime module, new enough for ``query_seqlens``."""
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise RuntimeUnavailableError(
            "ONNX Runtime is not installed.", hint=_INSTALL_HINT
        ) from error
    except ImportError as error:
        raise RuntimeUnavailableError(
            f"ONNX Runtime is installed but cannot be loaded: {error}.",
            hint="Install what it lacks, or install it again: "
            "pip install --force-reinstall onnxruntime.",
        ) from error
    if _version(onnxruntime.__version__) < _OLDEST_RUNTIME:
        raise RuntimeUnavailableError(
            f"ONNX Runtime {onnxruntime.__version__} is too old; mrs needs 1.32 or newer.",
            hint="Update it: pip install --upgrade 'mrs-onnx[cpu]'.",
        )
    return onnxruntime


def _version(text: str) -> tuple[int, ...]:
    """Major and minor version; ``1.33rc1`` counts as 1.33."""
    return tuple(int(number) for number in re.findall(r"\d+", text)[:2])
