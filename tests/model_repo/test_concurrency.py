from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from mrs.errors import StorageError
from mrs.model_repo.layout import RepositoryLayout
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.verification import verify
from tests.model_repo.samples import make_inputs, make_lock, publish, write_files

_fork = multiprocessing.get_context("fork")
Publisher = Callable[[Path, int, Barrier], str]


def publish_at_once(root: Path, index: int, barrier: Barrier, quant: str) -> str:
    with ModelRepository(root).stage("tiny") as staged:
        write_files(staged.path, f"from {index}".encode())
        lock = make_lock(staged.path, make_inputs(quant))
        barrier.wait(timeout=30)
        return staged.publish(lock).reference


def in_processes(root: Path, quants: list[str]) -> list[str]:
    """Publish one version for each of ``quants`` at the same time; return their references."""
    barrier = _fork.Barrier(len(quants))
    answers: Queue[str] = _fork.Queue()

    def work(index: int, quant: str) -> None:
        answers.put(publish_at_once(root, index, barrier, quant))

    workers = [_fork.Process(target=work, args=pair) for pair in enumerate(quants)]
    for worker in workers:
        worker.start()
    references = [answers.get(timeout=30) for _ in workers]
    for worker in workers:
        worker.join()
    return sorted(references)


def test_different_inputs_get_different_versions(tmp_path: Path) -> None:
    references = in_processes(tmp_path, ["a", "b", "c", "d"])
    assert references == ["tiny:1", "tiny:2", "tiny:3", "tiny:4"]
    versions = ModelRepository(tmp_path).versions()
    assert all(verify(version).ok for version in versions)
    assert len({version.graph_path.read_bytes() for version in versions}) == 4


def test_the_same_inputs_get_one_version(tmp_path: Path) -> None:
    assert in_processes(tmp_path, ["a"] * 4) == ["tiny:1"] * 4
    (version,) = ModelRepository(tmp_path).versions()
    assert verify(version).ok


def test_nothing_is_published_or_removed_while_another_process_holds_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = ModelRepository(tmp_path)
    published = publish(repository)
    with repository.stage("tiny") as staged:
        write_files(staged.path)
        lock = make_lock(staged.path)
        with lock_held_elsewhere(tmp_path):
            monkeypatch.setattr("mrs.model_repo.layout._PATIENCE_SECONDS", 0.0)
            for change in (
                lambda: staged.publish(lock, reuse_same_input=False),
                lambda: repository.remove("tiny:1"),
                repository.gc,
            ):
                with pytest.raises(StorageError, match="held by another process"):
                    change()
            assert repository.versions() == [published]


@contextmanager
def lock_held_elsewhere(root: Path) -> Iterator[None]:
    held, done = _fork.Event(), _fork.Event()

    def hold() -> None:
        with RepositoryLayout(root).exclusive():
            held.set()
            done.wait(timeout=30)

    holder = _fork.Process(target=hold)
    holder.start()
    try:
        assert held.wait(timeout=30)
        yield
    finally:
        done.set()
        holder.join()
