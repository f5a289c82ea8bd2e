from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrs.model_repo.contained_path import is_contained


@pytest.mark.parametrize("path", ["a", "cpu/model.onnx", "a b/ü.json", "..a", "a..b/..c"])
def test_plain_relative_paths_are_contained(path: str) -> None:
    assert is_contained(path)


@pytest.mark.parametrize(
    "path",
    [
        *["", ".", "..", "../a", "a/..", "a/../b", "/a", "//a", "a//b", "./a", "a/", "a/./b"],
        *["a\\b", "..\\a", "C:a", "a\0b", "a\nb", "\x1b[2J", "\udc80"],
    ],
)
def test_other_paths_are_not(path: str) -> None:
    assert not is_contained(path)


@given(st.lists(st.sampled_from(["a", "..", ".", "", "\\", "/", "b.c"])).map("/".join))
def test_a_contained_path_stays_below_its_folder(path: str) -> None:
    if is_contained(path):
        joined = os.path.normpath(f"/root/folder/{path}")
        assert joined == f"/root/folder/{path}"
