"""A process may be killed at any moment: the repository stays loadable, the rest collectable."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.verification import verify
from tests.model_repo.processes import survives
from tests.model_repo.samples import listing, publish


def kill_at_each_step(
    tmp_path: Path,
    action: Callable[[ModelRepository], object],
    check: Callable[[ModelRepository], None],
) -> int:
    """Kill ``action`` at its first step, its second, and so on; return how many there are."""
    for step in itertools.count(1):
        repository = ModelRepository(tmp_path / str(step))
        publish(repository)
        publish(repository, content=b"second")
        done = survives(lambda: action(repository), repository.root, step)  # noqa: B023
        check(repository)
        if done:
            return step - 1
    raise AssertionError


def check_loadable(repository: ModelRepository) -> None:
    entries = repository.entries()
    versions = repository.versions()
    assert len(entries) == len(versions)
    assert all(verify(version).ok for version in versions)
    assert repository.resolve("tiny:1").graph_path.read_bytes() == b"graph"


def check_collectable(repository: ModelRepository) -> None:
    before = [version.reference for version in repository.versions()]
    report = repository.gc()
    assert report.living_stages == 0
    assert [version.reference for version in repository.versions()] == before
    for hidden in (".staging", ".trash"):
        folder = repository.root / hidden
        assert not folder.exists() or listing(folder) == []
    assert all(listing(repository.root / name) for name in repository.names())


def check(repository: ModelRepository) -> None:
    check_loadable(repository)
    check_collectable(repository)
    newest = publish(repository, content=b"after")
    assert repository.resolve("tiny") == newest


def test_killed_while_publishing(tmp_path: Path) -> None:
    steps = kill_at_each_step(tmp_path, lambda repository: publish(repository, "new"), check)
    assert steps >= 20


def test_killed_while_removing(tmp_path: Path) -> None:
    steps = kill_at_each_step(tmp_path, lambda repository: repository.remove("tiny:2"), check)
    assert steps >= 8


def test_killed_while_collecting(tmp_path: Path) -> None:
    def leave_garbage_and_collect(repository: ModelRepository) -> None:
        stage = repository.root / ".staging" / "dead"
        (stage / "cpu").mkdir(parents=True)
        (stage / "cpu" / "weights").write_bytes(b"x")
        repository.gc()

    steps = kill_at_each_step(tmp_path, leave_garbage_and_collect, check)
    assert steps >= 10
