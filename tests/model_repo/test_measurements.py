from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from mrs.errors import StorageError
from mrs.model_repo.measurements import Measurements, read_measurements, write_measurements
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.verification import verify
from mrs.model_repo.version import ModelVersion
from tests.model_repo.samples import listing, publish

SPEED = Measurements(
    decode_tokens_per_second=81.5,
    prefill_tokens_per_second=457,
    threads=2,
    processor="a processor",
    onnxruntime="1.32.0",
)


@pytest.fixture
def version(repository: ModelRepository) -> ModelVersion:
    version = publish(repository)
    write_measurements(version, SPEED)
    return version


def file_of(version: ModelVersion) -> Path:
    return version.path.parents[1] / ".measurements" / "tiny" / "1.json"


def test_they_are_read_as_written(version: ModelVersion) -> None:
    assert read_measurements(version) == SPEED


def test_a_version_that_was_not_measured_has_none(
    version: ModelVersion, repository: ModelRepository
) -> None:
    assert read_measurements(publish(repository)) is None
    assert read_measurements(publish(repository, "other")) is None


def test_no_file_of_the_version_tells(version: ModelVersion, repository: ModelRepository) -> None:
    assert listing(version.path) == listing(publish(repository).path)
    assert verify(version).ok
    assert repository.names() == ["tiny"]


def test_a_folder_elsewhere_has_none(version: ModelVersion, tmp_path: Path) -> None:
    shutil.copytree(version.path, tmp_path / "copy")
    copy = replace(version, path=tmp_path / "copy", number=None)
    assert read_measurements(copy) is None
    with pytest.raises(StorageError, match="no repository"):
        write_measurements(copy, SPEED)


def test_they_go_with_their_version(version: ModelVersion, repository: ModelRepository) -> None:
    other = publish(repository)
    write_measurements(other, SPEED)
    repository.remove("tiny:1")
    assert not file_of(version).exists()
    assert read_measurements(other) == SPEED
    repository.remove("tiny:2")
    assert listing(repository.root / ".measurements") == []
    # The number is given again, to a version that was never measured.
    assert read_measurements(publish(repository)) is None


def test_a_number_that_became_free_otherwise_has_none(
    version: ModelVersion, repository: ModelRepository
) -> None:
    shutil.rmtree(version.path)
    assert publish(repository).reference == version.reference
    assert read_measurements(version) is None


def test_a_collection_leaves_them_alone(version: ModelVersion, repository: ModelRepository) -> None:
    assert repository.gc().bytes_freed == 0
    assert read_measurements(version) == SPEED


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[" * 9999, b'{"threads": "2"}', b"\xff", b" " * 100_000],
)
def test_what_cannot_be_read_counts_as_not_measured(version: ModelVersion, content: bytes) -> None:
    file_of(version).write_bytes(content)
    assert read_measurements(version) is None


def test_a_link_out_of_the_repository_is_not_followed(
    version: ModelVersion, tmp_path: Path
) -> None:
    file_of(version).rename(tmp_path / "elsewhere")
    file_of(version).symlink_to(tmp_path / "elsewhere")
    assert read_measurements(version) is None
    shutil.rmtree(file_of(version).parent)
    file_of(version).parent.symlink_to(tmp_path)
    with pytest.raises(StorageError, match="symbolic link"):
        write_measurements(version, SPEED)
