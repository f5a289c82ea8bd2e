from __future__ import annotations

import os
from pathlib import Path

import pytest

from mrs.errors import CorruptCheckpointError, SourceNotFoundError, StorageError, UsageError
from mrs.export.checkpoints.mapped_file import MappedFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "m.gguf"
    path.write_bytes(bytes(range(24)))
    return path


def test_rows_are_a_view_that_cannot_be_written(path: Path) -> None:
    file = MappedFile(path)
    rows = file.rows(4, 3, 5)
    assert rows.tolist() == [[4, 5, 6, 7, 8], [9, 10, 11, 12, 13], [14, 15, 16, 17, 18]]
    assert not rows.flags.writeable
    assert not rows.flags.owndata
    del rows
    file.close()


@pytest.mark.parametrize(("count", "row_bytes"), [(0, 4), (4, 0), (0, 0)])
def test_no_bytes_are_rows_too(path: Path, count: int, row_bytes: int) -> None:
    assert MappedFile(path).rows(24, count, row_bytes).shape == (count, row_bytes)


def test_bytes_that_are_not_there_are_a_value_error(path: Path) -> None:
    with pytest.raises(ValueError):
        MappedFile(path).rows(20, 1, 5)


def test_a_view_outlives_the_closing(path: Path) -> None:
    file = MappedFile(path)
    rows = file.rows(0, 1, 4)
    file.close()
    assert rows.tolist() == [[0, 1, 2, 3]]


def test_a_closed_file_has_no_rows(path: Path) -> None:
    file = MappedFile(path)
    file.close()
    with pytest.raises(ValueError):
        file.rows(0, 1, 4)


def test_a_file_that_shrinks_is_told_before_a_page_is_touched(path: Path) -> None:
    file = MappedFile(path)
    os.truncate(path, 10)
    with pytest.raises(CorruptCheckpointError, match="from 24 to 10 bytes"):
        file.rows(0, 1, 4)


def test_a_file_that_is_replaced_is_still_the_old_one(path: Path) -> None:
    file = MappedFile(path)
    path.unlink()
    path.write_bytes(b"new")
    assert file.rows(0, 1, 4).tolist() == [[0, 1, 2, 3]]


def test_what_cannot_be_mapped_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    for name, kind in [
        ("empty", CorruptCheckpointError),
        ("loop", StorageError),
        ("pipe", UsageError),
        (".", UsageError),
        ("missing", SourceNotFoundError),
        ("empty/x", SourceNotFoundError),
        ("x" * 300, StorageError),
    ]:
        with pytest.raises(kind):
            MappedFile(tmp_path / name)
