from __future__ import annotations

import hashlib
import random
import shutil
import struct
import zipfile
from pathlib import Path

import pytest

from mrs.errors import DownloadError, MrsError, StorageError
from mrs.export.progress import SilentProgress
from mrs.export.sources.wheel_archive import holdings, list_models, unpack_model
from mrs.model_repo.lock import FileDigest
from tests.export.sources.recording import Phase, RecordingProgress
from tests.export.sources.wheels import record_hash, write_wheel

DATA = b"GGUF" + bytes(range(256)) * 20


def refusal(wheel: Path) -> str:
    with pytest.raises(DownloadError) as caught:
        list_models(wheel)
    return str(caught.value)


def change_directory_entry(wheel: Path, member: str, offset: int, value: bytes) -> None:
    """Overwrite bytes of a member's central directory entry, at an offset in that entry."""
    data = bytearray(wheel.read_bytes())
    name_at = data.rindex(member.encode())
    start = name_at - 46
    assert data[start : start + 4] == b"PK\x01\x02"
    data[start + offset : start + offset + len(value)] = value
    wheel.write_bytes(data)


def test_models_are_listed_with_the_hashes_of_record(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, members={"p/b.GGUF": b"bb", "p/a.gguf": DATA, "p/x.py": b""})
    assert list_models(wheel) == (
        FileDigest(path="p/a.gguf", size=len(DATA), sha256=hashlib.sha256(DATA).hexdigest()),
        FileDigest(path="p/b.GGUF", size=2, sha256=hashlib.sha256(b"bb").hexdigest()),
    )


def test_a_model_is_unpacked(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, members={"p/a.gguf": DATA})
    progress = RecordingProgress()
    unpack_model(wheel, list_models(wheel)[0], tmp_path / "out", progress)
    assert (tmp_path / "out").read_bytes() == DATA
    assert progress.phases == [Phase("Unpack a.gguf", len(DATA), "bytes", len(DATA))]


def test_a_wheel_without_a_model_says_what_it_holds(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, members={"p/__init__.py": b"pass", "p/data.bin": bytes(99)})
    assert list_models(wheel) == ()
    assert holdings(wheel) == "'p/data.bin', 'p/__init__.py'"


@pytest.mark.parametrize("name", ["/etc/a.gguf", "../a.gguf", "p/../../a.gguf", "C:a.gguf"])
def test_a_path_that_leaves_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    assert "leave its folder" in refusal(write_wheel(tmp_path, members={name: DATA}))


def test_control_characters_in_a_name_are_refused(tmp_path: Path) -> None:
    message = refusal(write_wheel(tmp_path, members={"p/\x1b[2Ja.gguf": DATA}))
    assert "\x1b" not in message


def test_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("p/a.gguf")
    info.create_system = 3
    info.external_attr = 0o120777 << 16
    wheel = write_wheel(tmp_path, members={"p/a.gguf": b"/etc/passwd"}, infos={"p/a.gguf": info})
    assert "symbolic link" in refusal(wheel)


def test_unusual_compression_is_refused(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("p/a.gguf")
    info.compress_type = zipfile.ZIP_LZMA
    wheel = write_wheel(tmp_path, members={"p/a.gguf": DATA}, infos={"p/a.gguf": info})
    assert "method 14" in refusal(wheel)


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, members={"p/a.gguf": DATA})
    change_directory_entry(wheel, "p/a.gguf", 8, b"\x01\x00")
    assert "encrypted" in refusal(wheel)


def test_a_size_that_deflate_cannot_reach_is_refused(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, members={"p/a.gguf": DATA})
    change_directory_entry(wheel, "p/a.gguf", 24, struct.pack("<I", 0x7FFFFFFF))
    assert "into 2147483647" in refusal(wheel)


def test_a_stored_size_beyond_the_wheel_is_refused(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, members={"p/a.gguf": DATA})
    change_directory_entry(wheel, "p/a.gguf", 20, struct.pack("<II", 0x7FFFFFFF, 0x7FFFFFFF))
    assert "more bytes than the wheel has" in refusal(wheel)


@pytest.mark.parametrize("difference", [-1, 1])
def test_a_size_that_is_not_the_true_one_is_refused(tmp_path: Path, difference: int) -> None:
    wheel = write_wheel(tmp_path, members={"p/a.gguf": DATA})
    change_directory_entry(wheel, "p/a.gguf", 24, struct.pack("<I", len(DATA) + difference))
    with pytest.raises(DownloadError):
        unpack_model(wheel, list_models(wheel)[0], tmp_path / "out", SilentProgress())


def test_a_wrong_hash_in_record_is_noticed(tmp_path: Path) -> None:
    wheel = write_wheel(
        tmp_path, members={"p/a.gguf": DATA}, record={"p/a.gguf": record_hash(b"other")}
    )
    with pytest.raises(DownloadError, match="does not match the hash in the wheel's RECORD"):
        unpack_model(wheel, list_models(wheel)[0], tmp_path / "out", SilentProgress())


@pytest.mark.parametrize("entry", ["", "md5=abc", "sha256=", "sha256=AAAA"])
def test_a_model_without_a_sha256_in_record_is_refused(tmp_path: Path, entry: str) -> None:
    wheel = write_wheel(tmp_path, members={"p/a.gguf": DATA}, record={"p/a.gguf": entry})
    assert "no sha256 for p/a.gguf" in refusal(wheel)


def test_a_hash_that_is_not_base64_is_refused(tmp_path: Path) -> None:
    record = {"p/a.gguf": "sha256=????"}
    wheel = write_wheel(tmp_path, members={"p/a.gguf": DATA}, record=record)
    assert "RECORD cannot be read" in refusal(wheel)


def test_a_second_record_is_refused(tmp_path: Path) -> None:
    members = {"p/a.gguf": DATA, "other-1.dist-info/RECORD": b"p/a.gguf,sha256=AAAA,"}
    assert "2 RECORD files" in refusal(write_wheel(tmp_path, members=members))


def test_a_model_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, members={"p/a.gguf": DATA})
    with (
        zipfile.ZipFile(wheel, "a") as archive,
        pytest.warns(UserWarning, match="Duplicate"),
    ):
        archive.writestr("p/a.gguf", b"other")
    assert "occurs twice" in refusal(wheel)


def test_what_is_no_zip_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "x-1-py3-none-any.whl"
    wheel.write_bytes(b"<html>not here</html>")
    assert "x-1-py3-none-any.whl cannot be used" in refusal(wheel)


def test_a_full_disk_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10))
    wheel = write_wheel(tmp_path, members={"p/a.gguf": DATA})
    with pytest.raises(StorageError, match="has 10 left"):
        unpack_model(wheel, list_models(wheel)[0], tmp_path / "out", SilentProgress())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("part", ["all", "directory"])
def test_damage_anywhere_is_an_mrs_error_or_harmless(tmp_path: Path, part: str) -> None:
    """Change bytes at seeded places and cut: what is unpacked is right, or refused."""
    rng = random.Random(part)
    whole = write_wheel(tmp_path, members={"p/a.gguf": DATA}).read_bytes()
    start = 0 if part == "all" else whole.index(b"PK\x01\x02")
    wheel = tmp_path / "damaged-1-py3-none-any.whl"
    target = tmp_path / "out"
    for attempt in range(500):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(start, len(whole))] = rng.choice([0, 1, 0x7F, 0xFF])
        wheel.write_bytes(damaged[: rng.randrange(len(whole))] if attempt % 5 == 0 else damaged)
        target.unlink(missing_ok=True)
        try:
            for model in list_models(wheel):
                unpack_model(wheel, model, target, SilentProgress())
                assert hashlib.sha256(target.read_bytes()).hexdigest() == model.sha256
        except MrsError as error:
            assert error.message
