"""Digests of the files of a source."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mrs.errors import UsageError
from mrs.export.progress import Progress
from mrs.model_repo.digests import sha256_file
from mrs.model_repo.lock import FileDigest


def digest_files(
    files: Mapping[str, Path], label: str, progress: Progress
) -> tuple[FileDigest, ...]:
    """Hash files, sorted by name; links are followed.

    Args:
        files: name in the record -> path.
        label: what is hashed, for the phase.
        progress: advanced by the bytes read.

    Raises:
        UsageError: a file cannot be read.
    """
    try:
        total = sum(path.stat().st_size for path in files.values())
        with progress.phase(f"Hash {label}", total=total, unit="bytes") as advance:
            digests = []
            for name, path in sorted(files.items()):
                size, sha256 = sha256_file(path.resolve(), advance)
                digests.append(FileDigest(path=name, size=size, sha256=sha256))
    except OSError as error:
        raise unreadable(Path(error.filename or label), error) from None
    return tuple(digests)


def unreadable(path: Path, error: Exception) -> UsageError:
    """Make the error for a file or folder that cannot be read."""
    reason = getattr(error, "strerror", None) or str(error)
    return UsageError(
        f"Cannot read {path}: {reason}.", hint="Check the file's owner and permissions."
    )
