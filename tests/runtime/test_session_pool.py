"""Sessions are opened once, shared, and closed with their last user."""

from __future__ import annotations

import gc
import shutil
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import pytest

from mrs.errors import ModelLoadError, RuntimeUnavailableError
from mrs.model_repo.version import ModelVersion
from mrs.processor import Processor
from mrs.runtime import session_pool
from mrs.runtime.session_pool import SessionKey, SessionPool, open_session

KEY = SessionKey(Path("a/model.onnx"), threads=2)
OTHERS = (SessionKey(Path("a/model.onnx"), threads=3), SessionKey(Path("b/model.onnx"), threads=2))


class FakeSession:
    pass


class Opener:
    """Stands for ONNX Runtime; counts what it opens."""

    def __init__(self) -> None:
        self.opened: list[SessionKey] = []
        self.error: Exception | None = None

    def __call__(self, key: SessionKey) -> Any:
        self.opened.append(key)
        if self.error is not None:
            raise self.error
        return FakeSession()


@pytest.fixture
def opener() -> Opener:
    return Opener()


@pytest.fixture
def pool(opener: Opener) -> SessionPool:
    return SessionPool(opener)


def test_users_at_once_share_a_session(pool: SessionPool, opener: Opener) -> None:
    with pool.session(KEY) as one, pool.session(KEY) as other:
        assert one is other
    assert opener.opened == [KEY]


@pytest.mark.parametrize("other", OTHERS)
def test_another_graph_or_number_of_threads_is_another_session(
    pool: SessionPool, other: SessionKey
) -> None:
    with pool.session(KEY) as one, pool.session(other) as two:
        assert one is not two
        assert pool.open_keys == {KEY, other}


def test_a_session_lasts_until_its_last_user_is_gone(pool: SessionPool, opener: Opener) -> None:
    with pool.session(KEY) as first:
        with pool.session(KEY):
            pass
        assert pool.open_keys == {KEY}
        ended = weakref.ref(first)
    assert pool.open_keys == frozenset()
    del first
    gc.collect()
    assert ended() is None
    with pool.session(KEY):
        assert opener.opened == [KEY, KEY]


def test_a_user_that_fails_lets_go(pool: SessionPool) -> None:
    with pytest.raises(KeyError), pool.session(KEY):
        raise KeyError
    assert pool.open_keys == frozenset()


def test_a_failed_opening_leaves_nothing_and_may_be_tried_again(
    pool: SessionPool, opener: Opener
) -> None:
    opener.error = ModelLoadError("no")
    with pytest.raises(ModelLoadError), pool.session(KEY):
        pass
    assert pool.open_keys == frozenset()
    opener.error = None
    with pool.session(KEY):
        assert pool.open_keys == {KEY}


class ToldLock:
    """A lock that tells of each attempt to take it."""

    def __init__(self) -> None:
        self.attempts = threading.Semaphore(0)
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self.attempts.release()
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


def test_a_second_user_waits_while_the_session_opens() -> None:
    opening, go_on = threading.Event(), threading.Event()
    opened: list[FakeSession] = []

    def opener(key: SessionKey) -> Any:
        opened.append(FakeSession())
        opening.set()
        assert go_on.wait(10)
        return opened[0]

    pool = SessionPool(opener)
    pool._lock = lock = ToldLock()  # type: ignore[assignment]
    both = threading.Barrier(2)

    def use() -> object:
        with pool.session(KEY) as session:
            both.wait(10)  # The first does not let go before the second has it, too.
            return session

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(use)
        assert opening.wait(10)
        assert lock.attempts.acquire(timeout=10)
        second = threads.submit(use)
        assert lock.attempts.acquire(timeout=10)
        go_on.set()
        assert first.result(10) is second.result(10) is opened[0]
    assert len(opened) == 1
    assert pool.open_keys == frozenset()


# --- ONNX Runtime itself --------------------------------------------------------------------------


def test_a_graph_is_opened_with_its_threads(tiny: ModelVersion) -> None:
    session = open_session(SessionKey(tiny.graph_path, threads=3))
    assert session.get_session_options().intra_op_num_threads == 3
    assert session.get_providers() == ["CPUExecutionProvider"]


def test_opening_leaves_the_callers_arithmetic_alone(tiny: ModelVersion) -> None:
    """Numbers too small for a full mantissa stay; a session may treat its own as zero."""
    open_session(SessionKey(tiny.graph_path, threads=1))
    assert sys.float_info.min / 2 > 0


@pytest.mark.parametrize("content", [None, b"", b"no graph", b"\x08\x0a" * 50])
def test_what_is_no_graph_is_refused_by_name(tmp_path: Path, content: bytes | None) -> None:
    graph = tmp_path / "model.onnx"
    if content is not None:
        graph.write_bytes(content)
    with pytest.raises(ModelLoadError, match=r"cannot load .*model\.onnx: \S") as caught:
        open_session(SessionKey(graph, threads=1))
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("reason", "shown"), [("first\nsecond", "first"), ("", "RuntimeError"), ("x" * 999, "x" * 300)]
)
def test_the_reason_is_one_line_of_bounded_length(
    monkeypatch: pytest.MonkeyPatch, reason: str, shown: str
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise RuntimeError(reason)

    monkeypatch.setattr("onnxruntime.InferenceSession", fail)
    with pytest.raises(ModelLoadError) as caught:
        open_session(KEY)
    assert caught.value.message == f"ONNX Runtime cannot load a/model.onnx: {shown}"


@pytest.mark.parametrize("location", ["../weights", "{folder}/weights", "link"])
def test_weights_outside_of_the_folder_are_never_read(
    tiny: ModelVersion, tmp_path: Path, location: str
) -> None:
    shutil.copy(tiny.graph_path.with_name("model.onnx.data"), tmp_path / "weights")
    inside = tmp_path / "model"
    inside.mkdir()
    (inside / "link").symlink_to(tmp_path / "weights")
    graph = onnx.load(str(tiny.graph_path), load_external_data=False)
    for tensor in graph.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location.format(folder=tmp_path)
    (inside / "model.onnx").write_bytes(graph.SerializeToString())
    with pytest.raises(ModelLoadError, match=r"External data path|Absolute path"):
        open_session(SessionKey(inside / "model.onnx", threads=1))


@pytest.mark.parametrize("version", ["1.31.1", "1.9.0", "0.99.0"])
def test_an_older_onnx_runtime_is_refused_with_both_versions(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", SimpleNamespace(__version__=version))
    with pytest.raises(RuntimeUnavailableError, match=rf"{version} is too old; mrs needs 1\.32"):
        open_session(KEY)


@pytest.mark.parametrize("version", ["1.32.0", "1.100.0", "2.0.0", "1.33rc1", "1.33.0.dev20260101"])
def test_a_newer_onnx_runtime_will_do(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    import onnxruntime

    monkeypatch.setattr(onnxruntime, "__version__", version)
    with pytest.raises(ModelLoadError):
        open_session(KEY)


def test_a_missing_onnx_runtime_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(RuntimeUnavailableError, match="not installed") as caught:
        open_session(KEY)
    assert "mrs-onnx[cpu]" in caught.value.hint


def test_an_onnx_runtime_that_lacks_a_library_is_not_called_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "onnxruntime.py").write_text("raise ImportError('libcudart.so: not found')")
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RuntimeUnavailableError, match=r"cannot be loaded: libcudart\.so: not"):
        open_session(KEY)


def test_threads_of_an_idle_session_do_not_spin_where_others_compute(tiny: ModelVersion) -> None:
    """They would keep those of another model from running."""
    session = open_session(SessionKey(tiny.graph_path, threads=2, alone=False))
    entry = session.get_session_options().get_session_config_entry
    assert entry("session.force_spinning_stop") == "1"


@pytest.mark.parametrize("overflows", [False, True])
def test_products_of_bytes_are_exact_on_processors_whose_sums_overflow(
    monkeypatch: pytest.MonkeyPatch, tiny: ModelVersion, overflows: bool
) -> None:
    """The faster kernels are for those that add four products at once (VNNI), and other CPUs."""
    flags = frozenset({"avx2"} if overflows else {"avx2", "avx512_vnni"})
    monkeypatch.setattr(session_pool, "read_processor", lambda: Processor("", flags, cores=2))
    session = open_session(SessionKey(tiny.graph_path, threads=2))
    entry = session.get_session_options().get_session_config_entry
    if overflows:
        assert entry("session.x64quantprecision") == "1"
    else:
        with pytest.raises(RuntimeError, match="x64quantprecision"):
            entry("session.x64quantprecision")
