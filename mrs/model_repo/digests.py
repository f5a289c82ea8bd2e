"""SHA-256 of files and folders, streamed."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from mrs.errors import CorruptVersionError
from mrs.model_repo.contained_path import is_contained
from mrs.model_repo.lock import LOCK_FILE_NAME, FileDigest
from mrs.model_repo.storage import storage_errors

OnBytes = Callable[[int], None]

SIGNATURE_FILE_NAME = "model.sig"

# What lies in a version and in no lock: the lock itself, and a signature, which comes later.
_BESIDE_THE_ARTIFACT = frozenset({LOCK_FILE_NAME, SIGNATURE_FILE_NAME})

_CHUNK = 1 << 20


def sha256_file(path: Path, on_bytes: OnBytes | None = None) -> tuple[int, str]:
    """Return the size in bytes and the lower-case hex SHA-256 of a regular file.

    Args:
        path: a regular file; symbolic links are not followed.
        on_bytes: called with the number of bytes read since the last call.

    Raises:
        OSError: it cannot be read, or is a link, a folder, a pipe or a device.
    """
    digest = hashlib.sha256()
    size = 0
    buffer = bytearray(_CHUNK)
    view = memoryview(buffer)
    with open_regular(path) as file:
        while count := file.readinto(buffer):
            digest.update(view[:count])
            size += count
            if on_bytes is not None:
                on_bytes(count)
    return size, digest.hexdigest()


def digest_folder(folder: Path, on_bytes: OnBytes | None = None) -> tuple[FileDigest, ...]:
    """Digest every file under ``folder`` that is part of the artifact, sorted by path.

    Raises:
        CorruptVersionError: the folder holds a link or another thing that is no regular file, or
            a name that no lock can hold.
        StorageError: something cannot be read.
    """
    with storage_errors(folder):
        digests = [_digest_entry(folder, path, on_bytes) for path in list_files(folder)]
    return tuple(digests)


def list_files(folder: Path) -> list[str]:
    """The relative POSIX paths of all that is not a folder under ``folder``, and of the artifact.

    That leaves out ``mrs.lock`` and the signature. Links and special files are listed too: it is
    for the caller to refuse them.

    Raises:
        OSError: a folder cannot be read.
    """
    paths = (os.path.relpath(path, folder) for path in _walk(folder))
    return sorted(path for path in paths if not _is_beside_the_artifact(folder, path))


def open_regular(path: Path) -> io.FileIO:
    """Open a regular file for unbuffered reading, and nothing else: no link, pipe or device.

    Raises:
        OSError: it is missing, cannot be read or is no regular file.
    """
    # O_NONBLOCK: opening a pipe without a writer would otherwise wait for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Not a regular file", str(path))
        return io.FileIO(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_small_file(path: Path, limit: int) -> bytes:
    """Read a regular file of at most ``limit`` bytes.

    Raises:
        OSError: it cannot be read, is no regular file, or is longer (``EFBIG``).
    """
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > limit:
            raise OSError(errno.EFBIG, f"Longer than {limit} bytes", str(path))
        return file.readall()


def _is_beside_the_artifact(folder: Path, path: str) -> bool:
    if path not in _BESIDE_THE_ARTIFACT:
        return False
    return path == LOCK_FILE_NAME or stat.S_ISREG((folder / path).lstat().st_mode)


def _walk(folder: Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(Path(entry.path))
            else:
                yield entry.path


def _digest_entry(folder: Path, path: str, on_bytes: OnBytes | None) -> FileDigest:
    if not is_contained(path):
        raise CorruptVersionError(f"{folder} holds {path!r}, a name that a lock cannot record.")
    if not stat.S_ISREG((folder / path).lstat().st_mode):
        raise CorruptVersionError(f"{folder / path} is not a regular file.")
    size, sha256 = sha256_file(folder / path, on_bytes)
    return FileDigest(path=path, size=size, sha256=sha256)
