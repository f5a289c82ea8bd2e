"""The file system: its errors in words, and its caches forced to the disk."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mrs.errors import StorageError

_HINTS = {
    errno.ENOSPC: "Free some space on that disk, or choose another repository with --repo.",
    errno.EDQUOT: "Free some of your quota, or choose another repository with --repo.",
    errno.EFBIG: "That file system has a limit on file sizes: choose another one with --repo.",
    errno.EROFS: "That file system is read-only: choose another repository with --repo.",
    errno.EACCES: "Check the owner and the permissions of that path.",
    errno.EPERM: "Check the owner and the permissions of that path.",
    errno.ENOTDIR: "A file stands where a folder is needed: choose another path with --repo.",
    errno.EIO: "The disk reports an error: check its health before anything else.",
    errno.EMFILE: "Too many files are open: raise the limit (ulimit -n).",
    errno.ENFILE: "Too many files are open on this machine.",
    errno.ENAMETOOLONG: "Choose a shorter path with --repo.",
}


def is_storage_failure(error: OSError) -> bool:
    """Whether the environment (disk, permissions, limits) is at fault, rather than a program."""
    return error.errno in _HINTS


def as_storage_error(error: OSError, path: Path | None = None) -> StorageError:
    """Put an operating system error in words.

    Args:
        error: what the operating system said; the path in it wins over ``path``.
        path: what was being read or written, for errors that do not say.
    """
    where = error.filename if isinstance(error.filename, str) else path
    reason = error.strerror or str(error) or type(error).__name__
    place = f"{where}: " if where is not None else ""
    return StorageError(f"{place}{reason}.", hint=_HINTS.get(error.errno or 0, ""))


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn each `OSError` raised inside into a `StorageError` that names a path."""
    try:
        yield
    except OSError as error:
        raise as_storage_error(error, path) from error


def fsync_tree(folder: Path) -> None:
    """Force every file and folder under ``folder``, and itself, to the disk."""
    for parent, _, files in os.walk(folder, topdown=False):
        for name in files:
            _fsync(Path(parent, name))
        fsync_folder(Path(parent))


def fsync_folder(folder: Path) -> None:
    """Force the entries of a folder to the disk, where its file system can do that."""
    # Some network and FUSE file systems refuse fsync on a folder; nothing more can be done there.
    with _unsupported_is_fine():
        _fsync(folder)


def remove_tree(path: Path) -> int:
    """Delete a file or a folder with all in it, following no links; return the bytes it held.

    Whatever another process deletes at the same time is no error.

    Raises:
        StorageError: something cannot be deleted.
    """
    with storage_errors(path):
        size = tree_size(path)
        if path.is_dir() and not path.is_symlink():
            _remove_folder(path)
        else:
            path.unlink(missing_ok=True)
    return size


def tree_size(path: Path) -> int:
    """Bytes in all regular files at or under ``path``; what vanishes meanwhile counts nothing."""
    try:
        if path.is_symlink() or not path.is_dir():
            return path.lstat().st_size
        return sum(tree_size(child) for child in path.iterdir())
    except FileNotFoundError:
        return 0


def is_empty(folder: Path) -> bool:
    """Whether a folder holds nothing."""
    return not any(folder.iterdir())


def _remove_folder(path: Path) -> None:
    while True:
        try:
            return shutil.rmtree(path)
        except FileNotFoundError:
            if not path.exists():
                return None


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _unsupported_is_fine() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise


def unlink_quietly(path: Path) -> None:
    """Delete a file if that is possible; leftovers are collected later."""
    with suppress(OSError):
        path.unlink()
