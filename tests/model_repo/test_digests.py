from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from mrs.errors import CorruptVersionError
from mrs.model_repo.digests import digest_folder, sha256_file


def test_the_digest_of_abc_is_that_of_fips_180(tmp_path: Path) -> None:
    path = tmp_path / "abc"
    path.write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_file(path) == (3, expected)


def test_progress_adds_up_to_the_size(tmp_path: Path) -> None:
    path = tmp_path / "big"
    content = bytes(range(256)) * 10_000
    path.write_bytes(content)
    steps: list[int] = []
    size, digest = sha256_file(path, steps.append)
    assert (size, digest) == (len(content), hashlib.sha256(content).hexdigest())
    assert len(steps) > 1
    assert sum(steps) == len(content)


def test_a_folder_is_digested_in_order_without_its_lock(tmp_path: Path) -> None:
    for name in ["b", "a/z", "a.b", "mrs.lock", "a/mrs.lock"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    digests = digest_folder(tmp_path)
    assert [file.path for file in digests] == ["a.b", "a/mrs.lock", "a/z", "b"]
    assert digests[-1].sha256 == hashlib.sha256(b"b").hexdigest()


@pytest.mark.parametrize("target", ["file", "folder", "nowhere"])
def test_a_folder_with_a_link_in_it_has_no_digest(tmp_path: Path, target: str) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(CorruptVersionError, match="link is not a regular file"):
        digest_folder(tmp_path)


def test_a_pipe_is_refused_rather_than_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="Not a regular file"):
        sha256_file(tmp_path / "pipe")
    with pytest.raises(CorruptVersionError):
        digest_folder(tmp_path)


def test_a_name_that_is_no_unicode_is_refused(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).write_text("x")
    with pytest.raises(CorruptVersionError, match="cannot record"):
        digest_folder(tmp_path)
