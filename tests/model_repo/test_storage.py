from __future__ import annotations

import errno
from pathlib import Path

import pytest

from mrs.errors import StorageError
from mrs.model_repo.storage import as_storage_error, remove_tree, storage_errors, tree_size
from tests.model_repo.samples import listing


def test_an_error_names_the_path_the_system_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="none: No such file"), storage_errors(tmp_path):
        (tmp_path / "none").read_bytes()


def test_an_error_without_a_path_names_the_one_that_is_known() -> None:
    error = as_storage_error(OSError(errno.ENOSPC, "No space left on device"), Path("/here"))
    assert error.message == "/here: No space left on device."


def test_a_tree_has_the_size_of_its_files_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "x").write_bytes(bytes(7))
    (tmp_path / "a" / "y").write_bytes(bytes(5))
    assert tree_size(tmp_path) == 12
    assert tree_size(tmp_path / "none") == 0
    assert remove_tree(tmp_path / "a") == 12
    assert listing(tmp_path) == []
    assert remove_tree(tmp_path / "a") == 0
