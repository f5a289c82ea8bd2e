"""Where things lie in a repository, and the lock that guards changes of it.

::

    <root>/<name>/<number>/     a version
    <root>/.staging/<token>/    a version in the making
    <root>/.staging/<token>.lock    held by the process that makes it, for as long as it lives
    <root>/.trash/<token>       on its way out
    <root>/.measurements/<name>/<number>.json    how fast a version ran on this machine
    <root>/.lock                held while a folder is renamed into or out of place

Readers take no lock: a version appears and vanishes with one rename.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from mrs.errors import StorageError
from mrs.model_repo.reference import is_name, parse_number
from mrs.model_repo.storage import fsync_folder, is_empty, storage_errors

MEASUREMENTS_FOLDER = ".measurements"

# A change takes two or three renames. Whoever holds the lock for a minute is not making one.
_PATIENCE_SECONDS = 60.0


class RepositoryLayout:
    """The paths of one repository."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.staging = root / ".staging"
        self.trash = root / ".trash"
        self.measurements = root / MEASUREMENTS_FOLDER

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the repository's lock, making the repository first if it does not exist.

        Raises:
            StorageError: it cannot be made or written, or another process keeps the lock.
        """
        self._create()
        path = self.root / ".lock"
        lock = FileLock(path, timeout=_PATIENCE_SECONDS, thread_local=False)
        with storage_errors(path):
            try:
                lock.acquire()
            except Timeout as error:
                raise StorageError(
                    f"{path} has been held by another process for {_PATIENCE_SECONDS:.0f} seconds.",
                    hint="Find a stopped mrs process with `ps` and end or resume it.",
                ) from error
        try:
            yield
        finally:
            lock.release()

    def names(self) -> list[str]:
        """The models' names, sorted; links are not followed."""
        return sorted(name for name in _folders(self.root) if is_name(name))

    def numbers(self, name: str) -> list[int]:
        """The version numbers of a model in ascending order."""
        with storage_errors(self.root / name):
            if (self.root / name).is_symlink():
                return []
            try:
                entries = [path.name for path in (self.root / name).iterdir()]
            except (FileNotFoundError, NotADirectoryError):
                return []
        return sorted(number for entry in entries if (number := parse_number(entry)) is not None)

    def version_path(self, name: str, number: int) -> Path:
        """The folder of a version, whether it exists or not."""
        return self.root / name / str(number)

    def forget_measurements(self, name: str, number: int) -> None:
        """Delete what was measured of a version, if anything was."""
        path = self.measurements / name / f"{number}.json"
        with storage_errors(path):
            path.unlink(missing_ok=True)
            if path.parent.is_dir() and is_empty(path.parent):
                path.parent.rmdir()

    def move_to_trash(self, path: Path) -> Path:
        """Rename ``path`` out of sight, for good even if the machine stops now."""
        target = self.trash / new_token()
        with storage_errors(path):
            make_folder(self.trash)
            path.rename(target)
            fsync_folder(self.trash)
            fsync_folder(path.parent)
        return target

    def _create(self) -> None:
        with storage_errors(self.root):
            try:
                self.root.mkdir(parents=True, exist_ok=True)
            except FileExistsError:
                reason = errno.ENOTDIR
                raise NotADirectoryError(reason, os.strerror(reason), str(self.root)) from None


def make_folder(path: Path) -> None:
    """Make a folder of the repository, or accept the one that is there.

    Raises:
        StorageError: a symbolic link or a file is there: it might lead out of the repository.
        OSError: it cannot be made.
    """
    path.mkdir(exist_ok=True)
    if path.is_symlink():
        raise StorageError(
            f"{path} is a symbolic link, which may lead out of the repository.",
            hint="Move the whole repository instead, and name the new place with --repo.",
        )


def new_token() -> str:
    """A random folder name for what is temporary."""
    return secrets.token_hex(8)


def liveness_lock(folder: Path) -> FileLock:
    """The lock that a process holds while it writes the stage ``folder``."""
    return FileLock(liveness_path(folder), timeout=0, thread_local=False)


def liveness_path(folder: Path) -> Path:
    """The file of `liveness_lock`; it lies beside the folder, which is renamed whole."""
    return folder.with_name(folder.name + ".lock")


def _folders(path: Path) -> list[str]:
    with storage_errors(path):
        try:
            with os.scandir(path) as entries:
                return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return []
