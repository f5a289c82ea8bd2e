from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mrs.errors import (
    CorruptVersionError,
    InvalidReferenceError,
    RepositoryError,
    StorageError,
)
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.verification import verify
from tests.model_repo.samples import listing, make_lock, publish, write_files


def leftovers(repository: ModelRepository) -> list[str]:
    return listing(repository.root / ".staging")


def test_a_stage_is_an_empty_folder_that_no_reader_sees(repository: ModelRepository) -> None:
    with repository.stage("tiny") as staged:
        assert listing(staged.path) == []
        assert repository.names() == []
        assert staged.path.stat().st_dev == repository.root.stat().st_dev


def test_a_published_version_is_whole_and_leaves_nothing_behind(
    repository: ModelRepository,
) -> None:
    version = publish(repository)
    assert verify(version).ok
    assert leftovers(repository) == []
    assert listing(repository.root / "tiny") == ["1"]


def test_a_published_version_is_readable_as_the_umask_says(repository: ModelRepository) -> None:
    old = os.umask(0o022)
    try:
        version = publish(repository)
    finally:
        os.umask(old)
    assert version.path.stat().st_mode & 0o777 == 0o755


def test_the_same_files_and_inputs_give_the_same_bytes_in_any_repository(
    tmp_path: Path,
) -> None:
    publish(ModelRepository(tmp_path / "a"), "other", content=b"first")
    first = publish(ModelRepository(tmp_path / "a"))
    publish(ModelRepository(tmp_path / "b"))
    second = publish(ModelRepository(tmp_path / "b"))
    assert (first.number, second.number) == (1, 2)
    names = {path.relative_to(first.path) for path in first.path.rglob("*") if path.is_file()}
    assert len(names) == 5
    for name in names:
        assert (first.path / name).read_bytes() == (second.path / name).read_bytes()


def test_numbers_go_on_after_the_highest_whatever_is_missing(
    repository: ModelRepository,
) -> None:
    for _ in range(3):
        publish(repository)
    repository.remove("tiny:1")
    repository.remove("tiny:2")
    assert publish(repository).number == 4


def test_a_number_that_anything_occupies_is_not_taken(repository: ModelRepository) -> None:
    publish(repository)
    (repository.root / "tiny" / "7").mkdir()  # A rename would replace an empty folder silently.
    (repository.root / "tiny" / "9").touch()
    assert publish(repository).number == 10


def test_a_stage_that_is_not_published_is_deleted(repository: ModelRepository) -> None:
    with repository.stage("tiny") as staged:
        write_files(staged.path)
    assert leftovers(repository) == []
    assert repository.names() == []


def test_an_error_deletes_the_stage_and_passes_through(repository: ModelRepository) -> None:
    with pytest.raises(KeyError), repository.stage("tiny") as staged:
        write_files(staged.path)
        raise KeyError
    assert leftovers(repository) == []


def test_a_full_disk_is_a_storage_error_and_deletes_the_stage(
    repository: ModelRepository,
) -> None:
    publish(repository)
    with pytest.raises(StorageError) as caught, repository.stage("tiny") as staged:
        (staged.path / "weights").symlink_to("/dev/full")
        (staged.path / "weights").write_bytes(b"x")
    assert f"{staged.path}: No space left on device." in caught.value.message
    assert "Free some space" in caught.value.hint
    assert leftovers(repository) == []
    assert len(repository.versions()) == 1


@pytest.mark.parametrize("number", [errno.EPERM, errno.EACCES, errno.EROFS, errno.EDQUOT])
def test_what_the_system_refuses_is_a_storage_error_with_its_path(
    repository: ModelRepository, number: int
) -> None:
    with pytest.raises(StorageError, match="some/file: ") as caught, repository.stage("tiny"):
        raise OSError(number, os.strerror(number), "some/file")
    assert caught.value.hint
    assert leftovers(repository) == []


def test_an_operating_system_error_of_the_program_itself_passes_through(
    repository: ModelRepository,
) -> None:
    with pytest.raises(FileNotFoundError), repository.stage("tiny") as staged:
        (staged.path / "none").read_bytes()


def test_the_same_inputs_give_the_version_there_is(repository: ModelRepository) -> None:
    first = publish(repository, quant="q8")
    publish(repository, quant="fp32")
    with repository.stage("tiny") as staged:
        write_files(staged.path)
        again = staged.publish(make_lock(staged.path))
        assert staged.reused
    assert again == first
    assert leftovers(repository) == []
    assert len(repository.versions()) == 2


def test_the_same_inputs_give_a_new_version_where_that_is_wanted(
    repository: ModelRepository,
) -> None:
    assert publish(repository).number == 1
    assert publish(repository, reuse=False).number == 2


def test_the_same_inputs_repair_a_damaged_version_with_a_new_one(
    repository: ModelRepository,
) -> None:
    publish(repository).graph_path.unlink()
    assert publish(repository, reuse=True).number == 2


def test_a_lock_that_does_not_fit_the_folder_is_not_published(
    repository: ModelRepository,
) -> None:
    with repository.stage("tiny") as staged:
        write_files(staged.path)
        lock = make_lock(staged.path)
        (staged.path / "late").touch()
        with pytest.raises(CorruptVersionError, match="late is not in the lock"):
            staged.publish(lock)
    assert repository.entries() == []


def test_a_stage_is_published_once(repository: ModelRepository) -> None:
    with repository.stage("tiny") as staged:
        write_files(staged.path)
        lock = make_lock(staged.path)
        staged.publish(lock)
        with pytest.raises(RepositoryError, match="before"):
            staged.publish(lock)
    assert len(repository.versions()) == 1


def test_a_name_that_leaves_the_root_is_refused_before_anything_is_made(
    repository: ModelRepository,
) -> None:
    with pytest.raises(InvalidReferenceError):
        repository.stage("../outside")
    assert not repository.root.exists()


def test_a_linked_staging_folder_is_refused(repository: ModelRepository, tmp_path: Path) -> None:
    repository.root.mkdir()
    (tmp_path / "outside").mkdir()
    (repository.root / ".staging").symlink_to(tmp_path / "outside")
    with pytest.raises(StorageError, match="symbolic link"), repository.stage("tiny"):
        pass
    assert listing(tmp_path / "outside") == []
