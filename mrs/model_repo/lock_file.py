"""Reading and writing ``mrs.lock``."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path

from pydantic import ValidationError

from mrs.canonical_json import canonical_json
from mrs.errors import CorruptVersionError, StorageError
from mrs.model_repo.contained_path import is_contained
from mrs.model_repo.digests import read_small_file
from mrs.model_repo.lock import LOCK_FILE_NAME, ExportInputs, ModelLock
from mrs.model_repo.storage import as_storage_error, is_storage_failure, storage_errors

# A lock with ten thousand tensors has about one megabyte.
_LARGEST_LOCK = 64 << 20


def input_digest(inputs: ExportInputs) -> str:
    """SHA-256 of the canonical JSON of ``inputs``: equal for exports that give equal bytes."""
    return hashlib.sha256(canonical_json(inputs.model_dump(mode="json"))).hexdigest()


def artifact_digest(lock: ModelLock) -> str:
    """SHA-256 of the canonical JSON of all that a lock says but what was measured.

    It identifies an artifact: inputs, tensors and files. The same input gives the same digest on
    any machine and any day. What has its default is left out, so that fields which come with a
    later mrs leave the digests of today's versions as they are.
    """
    lock = lock.model_copy(update={"files": lock.identifying_files})
    measured = {"parity", "int8_cache"}
    facts = lock.model_dump(mode="json", exclude=measured, exclude_defaults=True)
    return hashlib.sha256(canonical_json(facts)).hexdigest()


def write_lock(folder: Path, lock: ModelLock) -> None:
    """Write ``folder/mrs.lock`` as canonical JSON.

    Raises:
        StorageError: it cannot be written.
    """
    path = folder / LOCK_FILE_NAME
    with storage_errors(path):
        path.write_bytes(canonical_json(lock.model_dump(mode="json")))


def read_lock(folder: Path) -> ModelLock:
    """Read and check ``folder/mrs.lock``; the files that it names are not looked at.

    Raises:
        CorruptVersionError: it is missing, malformed, not a regular file, or names a path that
            leaves the folder.
        StorageError: it cannot be read.
    """
    lock = _parse(folder, read_metadata(folder / LOCK_FILE_NAME, _LARGEST_LOCK))
    paths = [file.path for file in lock.files]
    for path in paths:
        if not is_contained(path) or path == LOCK_FILE_NAME:
            raise _corrupt(folder, f"names the file {path!r}, which no version may hold")
    if len(set(paths)) != len(paths):
        raise _corrupt(folder, "names a file twice")
    return lock


def read_metadata(path: Path, limit: int) -> bytes:
    """Read a version's small JSON file.

    Raises:
        CorruptVersionError: it is missing, longer than ``limit`` bytes or no regular file.
        StorageError: the disk or the permissions are at fault.
    """
    try:
        return read_small_file(path, limit)
    except FileNotFoundError as error:
        raise CorruptVersionError(
            f"{path.parent} is not a model version: it has no {path.name}.",
            hint="A version is a folder that `mrs export` has made.",
        ) from error
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> CorruptVersionError | StorageError:
    if error.errno == errno.ELOOP:
        return CorruptVersionError(f"{path} is a symbolic link.")
    # EFBIG comes from the limit above, never from reading.
    if is_storage_failure(error) and error.errno != errno.EFBIG:
        return as_storage_error(error, path)
    return CorruptVersionError(f"{path} cannot be used: {error.strerror or error}.")


def _parse(folder: Path, text: bytes) -> ModelLock:
    try:
        return ModelLock.model_validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        at = f" at {where}" if where else ""
        raise _corrupt(folder, f"is malformed{at}: {first['msg']}") from error


def _corrupt(folder: Path, what: str) -> CorruptVersionError:
    return CorruptVersionError(
        f"{folder / LOCK_FILE_NAME} {what}.",
        hint="Export the model again, and remove this version with `mrs models remove`.",
    )
