from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from mrs.errors import MrsError, SourceNotFoundError, UsageError
from mrs.export.progress import SilentProgress
from mrs.export.sources import file_digests
from mrs.export.sources.local_file import expanded_path, resolve_local_file
from mrs.model_repo.lock import FileDigest, SourceRecord
from tests.export.sources.recording import Phase, RecordingProgress


def refusal(source: Path | str) -> MrsError:
    with pytest.raises(MrsError) as caught:
        resolve_local_file(Path(source), SilentProgress())
    return caught.value


def test_a_file_is_named_and_digested(tmp_path: Path) -> None:
    path = tmp_path / "Tiny-1M.Q8_0.gguf"
    path.write_bytes(b"some bytes")
    source = resolve_local_file(path, SilentProgress())
    digest = FileDigest(
        path="Tiny-1M.Q8_0.gguf", size=10, sha256=hashlib.sha256(b"some bytes").hexdigest()
    )
    assert source.path == path
    assert source.model_name == "tiny-1m"
    assert source.record == SourceRecord(
        kind="file", identifier="Tiny-1M.Q8_0.gguf", files=(digest,)
    )


def test_hashing_is_reported_in_bytes(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(bytes(3_000_000))
    progress = RecordingProgress()
    resolve_local_file(tmp_path / "m.gguf", progress)
    assert progress.phases == [Phase("Hash m.gguf", 3_000_000, "bytes", 3_000_000)]


def test_the_record_does_not_depend_on_the_folder(tmp_path: Path) -> None:
    records = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        (folder / "m.gguf").write_bytes(b"x")
        records.append(resolve_local_file(folder / "m.gguf", SilentProgress()).record)
    assert records[0] == records[1]


def test_a_link_is_followed_and_gives_the_name(tmp_path: Path) -> None:
    (tmp_path / "4f3a2b").write_bytes(b"blob")
    (tmp_path / "model.gguf").symlink_to(tmp_path / "4f3a2b")
    source = resolve_local_file(tmp_path / "model.gguf", SilentProgress())
    assert source.record.identifier == "model.gguf"
    assert source.record.files[0].sha256 == hashlib.sha256(b"blob").hexdigest()


def test_the_home_folder_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert expanded_path("~/m.gguf") == tmp_path / "m.gguf"


def test_a_missing_file_suggests_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "SmolLM2.Q4_1.gguf").touch()
    (tmp_path / "unrelated.txt").touch()
    error = refusal(tmp_path / "SmolLM2.Q4_0.gguf")
    assert isinstance(error, SourceNotFoundError)
    assert error.hint == f"Did you mean {tmp_path / 'SmolLM2.Q4_1.gguf'}?"


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    error = refusal(tmp_path / "nowhere" / "m.gguf")
    assert isinstance(error, SourceNotFoundError)
    assert f"no folder {tmp_path / 'nowhere'}" in error.hint


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").touch()
    assert isinstance(refusal(tmp_path / "m.gguf" / "n.gguf"), SourceNotFoundError)


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    assert "not a regular file" in str(refusal(tmp_path / "pipe.gguf"))


def test_an_unreadable_file_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Path, on_bytes: object = None) -> tuple[int, str]:
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "m.gguf").touch()
    monkeypatch.setattr(file_digests, "sha256_file", denied)
    error = refusal(tmp_path / "m.gguf")
    assert isinstance(error, UsageError)
    assert "Permission denied" in str(error)


def test_a_link_in_a_circle_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").symlink_to(tmp_path / "m.gguf")
    assert isinstance(refusal(tmp_path / "m.gguf"), UsageError)


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.gguf")
    Path(path).touch()
    assert "not UTF-8" in str(refusal(path))


def test_too_long_a_name_is_a_usage_error() -> None:
    assert isinstance(refusal("x" * 5000), UsageError)


def test_any_part_of_a_split_model_is_the_whole_of_it(tmp_path: Path) -> None:
    names = [f"Tiny-Q4_0-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    for name in names:
        (tmp_path / name).write_bytes(name.encode())
    source = resolve_local_file(tmp_path / names[1], SilentProgress())
    assert source.path == tmp_path / names[0]
    assert source.model_name == "tiny"
    assert source.record.identifier == names[0]
    assert [file.path for file in source.record.files] == names


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    (tmp_path / "m-00001-of-00002.gguf").touch()
    error = refusal(tmp_path / "m-00001-of-00002.gguf")
    assert isinstance(error, SourceNotFoundError)
    assert "m-00002-of-00002.gguf" in str(error)
