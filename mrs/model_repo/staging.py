"""A version in the making: written out of sight, then renamed into place."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mrs.errors import RepositoryError, StorageError
from mrs.model_repo.layout import (
    RepositoryLayout,
    liveness_lock,
    liveness_path,
    make_folder,
    new_token,
)
from mrs.model_repo.lock import ModelLock
from mrs.model_repo.lock_file import write_lock
from mrs.model_repo.storage import (
    as_storage_error,
    fsync_folder,
    fsync_tree,
    is_storage_failure,
    remove_tree,
    storage_errors,
    unlink_quietly,
)
from mrs.model_repo.verification import verify
from mrs.model_repo.version import ModelVersion

FindByInput = Callable[[str, str], ModelVersion | None]


class StagedVersion:
    """A folder to write a version into, until `publish` puts it into place.

    Attributes:
        path: the folder, empty at first. Any number of processes may have one for the same model.
        reused: after `publish`, whether it returned a version that was there already.
    """

    def __init__(
        self, layout: RepositoryLayout, name: str, path: Path, find_by_input: FindByInput
    ) -> None:
        self.path = path
        self.reused = False
        self._layout = layout
        self._name = name
        self._find_by_input = find_by_input
        self._published = False

    def publish(self, lock: ModelLock, *, reuse_same_input: bool = True) -> ModelVersion:
        """Write the lock and make the folder the model's next version.

        Everything is on the disk before the version can be seen, so that it is whole or absent
        after a power failure too.

        Args:
            lock: what `mrs.lock` is to say; its ``files`` must be those in the folder.
            reuse_same_input: return a sound version of the same ``input_digest`` if there is one
                by now, and drop the folder.

        Raises:
            CorruptVersionError: folder and lock disagree.
            StorageError: the disk is full, or something cannot be written.
        """
        if self._published:
            raise RepositoryError(f"This stage of {self._name!r} was published before.")
        self._seal(lock)
        with self._layout.exclusive():
            if reuse_same_input and (existing := self._existing(lock)) is not None:
                self.reused = True
                return existing
            return self._move_into_place(lock)

    def _existing(self, lock: ModelLock) -> ModelVersion | None:
        return self._find_by_input(self._name, lock.input_digest)

    def _seal(self, lock: ModelLock) -> None:
        write_lock(self.path, lock)
        draft = ModelVersion(self._name, None, self.path, lock)
        verify(draft, full=False).require_ok()
        with storage_errors(self.path):
            fsync_tree(self.path)

    def _move_into_place(self, lock: ModelLock) -> ModelVersion:
        number = max(self._layout.numbers(self._name), default=0) + 1
        target = self._layout.version_path(self._name, number)
        # Of a version that had the number and was deleted by other means than `remove`.
        self._layout.forget_measurements(self._name, number)
        with storage_errors(target):
            make_folder(target.parent)
            self.path.rename(target)
            self._published = True
            fsync_folder(target.parent)
            fsync_folder(self._layout.root)
        return ModelVersion(self._name, number, target, lock)


@contextmanager
def stage(
    layout: RepositoryLayout, name: str, find_by_input: FindByInput
) -> Iterator[StagedVersion]:
    """Make a stage; on leaving, whatever was not published is deleted.

    Raises:
        StorageError: also for an `OSError` of the ``with`` block that the disk or the permissions
            are to blame for.
    """
    path = layout.staging / new_token()
    alive = liveness_lock(path)
    # Under the repository's lock, so that no collector sees the folder before its lock is held.
    with layout.exclusive(), storage_errors(path):
        make_folder(layout.staging)
        alive.acquire()
        path.mkdir()
    try:
        with _disk_to_blame(path):
            yield StagedVersion(layout, name, path, find_by_input)
    finally:
        with contextlib.suppress(StorageError):  # What cannot be deleted now is collected later.
            remove_tree(path)
        unlink_quietly(liveness_path(path))
        alive.release()


@contextmanager
def _disk_to_blame(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if not is_storage_failure(error):
            raise
        raise as_storage_error(error, path) from error
