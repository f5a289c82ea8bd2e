from __future__ import annotations

import os
import signal

from mrs.model_repo.garbage import GcReport
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.verification import verify
from tests.model_repo.samples import listing, make_lock, publish, write_files

NOTHING = GcReport(stages=0, trashed=0, empty_models=0, living_stages=0, bytes_freed=0)


def die_in_a_stage(repository: ModelRepository) -> None:
    """Leave a stage of 1000 bytes behind in a process that is killed."""
    child = os.fork()
    if child == 0:  # pragma: no cover
        with repository.stage("tiny") as staged:
            (staged.path / "weights").write_bytes(bytes(1000))
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_clean_repository_stays_as_it_is(repository: ModelRepository) -> None:
    version = publish(repository)
    assert repository.gc() == NOTHING
    assert verify(version).ok


def test_a_dead_stage_goes_and_its_bytes_are_counted(repository: ModelRepository) -> None:
    die_in_a_stage(repository)
    assert repository.gc() == GcReport(1, 0, 0, 0, 1000)
    assert listing(repository.root / ".staging") == []
    assert repository.gc() == NOTHING


def test_a_living_stage_is_spared_and_can_be_published(repository: ModelRepository) -> None:
    with repository.stage("tiny") as staged:
        write_files(staged.path)
        die_in_a_stage(repository)
        assert repository.gc() == GcReport(1, 0, 0, 1, 1000)
        version = staged.publish(make_lock(staged.path))
    assert verify(version).ok


def test_a_living_stage_of_another_process_is_spared(repository: ModelRepository) -> None:
    ready, staged = os.pipe()
    wait, collected = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        with repository.stage("tiny") as stage:
            write_files(stage.path)
            os.write(staged, b"x")
            os.read(wait, 1)
            stage.publish(make_lock(stage.path))
        os._exit(0)
    os.read(ready, 1)
    report = repository.gc()
    os.write(collected, b"x")
    os.waitpid(child, 0)
    assert report == GcReport(0, 0, 0, 1, 0)
    assert verify(repository.resolve("tiny:1")).ok
    for descriptor in (ready, staged, wait, collected):
        os.close(descriptor)


def test_the_lock_file_of_a_dead_stage_goes_too(repository: ModelRepository) -> None:
    publish(repository)
    (repository.root / ".staging" / "dead.lock").touch()
    repository.gc()
    assert listing(repository.root / ".staging") == []


def test_trash_and_empty_models_go(repository: ModelRepository) -> None:
    publish(repository)
    (repository.root / ".trash").mkdir()
    (repository.root / ".trash" / "half").mkdir()
    (repository.root / ".trash" / "half" / "weights").write_bytes(bytes(10))
    (repository.root / "empty").mkdir()
    assert repository.gc() == GcReport(0, 1, 1, 0, 10)
    assert repository.names() == ["tiny"]


def test_links_in_garbage_are_not_followed(repository: ModelRepository) -> None:
    version = publish(repository)
    (repository.root / ".trash").mkdir()
    (repository.root / ".trash" / "link").symlink_to(version.path)
    (repository.root / ".staging" / "link").symlink_to(version.path)
    repository.gc()
    assert verify(version).ok
    assert listing(repository.root / ".trash") == []
    assert listing(repository.root / ".staging") == []
