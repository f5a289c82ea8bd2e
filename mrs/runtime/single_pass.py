"""Sessions of models that see each row in one pass: embedding models and rerankers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mrs.cpu import usable_cpus
from mrs.errors import EngineError
from mrs.model_repo.version import ModelVersion
from mrs.runtime.session_pool import SessionKey, SessionPool
from mrs.runtime.step_gate import SHARED_GATE
from mrs.runtime.tokenizer import Tokenizer
from mrs.runtime.version_files import check_files

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

POOL = SessionPool()


@contextmanager
def open_single_pass(
    version: ModelVersion, threads: int | None, *, alone: bool, pool: SessionPool
) -> Iterator[tuple[InferenceSession, Tokenizer]]:
    """The session and the tokenizer of a version, for as long as the context lasts.

    Args:
        version: what to load.
        threads: threads per operator; None means the processors that this process may use.
        alone: no other model computes in this process.
        pool: where the session comes from.

    Raises:
        CorruptVersionError: a file is missing, or not as long as the lock says.
        ModelLoadError: the artifact cannot be loaded.
        RuntimeUnavailableError: ONNX Runtime is missing or too old.
    """
    check_files(version)
    tokenizer = Tokenizer.from_file(version.tokenizer_path)
    key = SessionKey(version.graph_path, usable_cpus() if threads is None else threads, alone)
    with pool.session(key) as session:
        yield session, tokenizer


def run_single_pass(
    session: InferenceSession, output: str, feeds: Mapping[str, NDArray[Any]]
) -> NDArray[np.float32]:
    """One output of one batch, when it is this model's turn.

    Raises:
        EngineError: ONNX Runtime fails.
    """
    try:
        with SHARED_GATE:
            found: NDArray[np.float32] = session.run([output], feeds)[0]
    except Exception as error:  # ONNX Runtime raises many unrelated types
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise EngineError(f"ONNX Runtime failed: {reason:.300}") from error
    return found
