"""Whether a version's files are those that its lock names."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from mrs.errors import CorruptVersionError, MrsError
from mrs.model_repo.digests import OnBytes, list_files, sha256_file
from mrs.model_repo.lock import FileDigest
from mrs.model_repo.lock_file import input_digest
from mrs.model_repo.manifest import read_manifest
from mrs.model_repo.storage import storage_errors
from mrs.model_repo.version import ModelVersion


class ProblemKind(StrEnum):
    """What can be wrong with a version."""

    MISSING = "missing"
    SIZE = "size"
    DIGEST = "digest"
    EXTRA = "extra"
    SYMLINK = "symlink"
    NOT_A_FILE = "not_a_file"
    UNREADABLE = "unreadable"
    MANIFEST = "manifest"
    LOCK = "lock"
    SIGNATURE = "signature"


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: the path relative to the version, and a sentence about it."""

    path: str
    kind: ProblemKind
    detail: str


@dataclass(frozen=True)
class VerificationReport:
    """The outcome of `verify`.

    Attributes:
        reference: the version.
        files: number of files that the lock names.
        size: bytes that the lock names.
        full: whether contents were hashed, and not sizes alone compared.
        problems: what is wrong, by path; empty for a sound version.
    """

    reference: str
    files: int
    size: int
    full: bool
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def require_ok(self) -> None:
        """Do nothing for a sound version.

        Raises:
            CorruptVersionError: something is wrong; the message tells the first problem.
        """
        if self.ok:
            return
        more = len(self.problems) - 1
        rest = f" ({more} more problem{'s' if more > 1 else ''})" if more else ""
        raise CorruptVersionError(
            f"{self.reference} is damaged: {self.problems[0].detail}{rest}",
            hint=f"See all with `mrs models verify {self.reference}`, or export the model again.",
        )


def verify(
    version: ModelVersion, *, full: bool = True, on_bytes: OnBytes | None = None
) -> VerificationReport:
    """Compare a version's folder with its lock.

    Args:
        version: the version.
        full: hash every file; otherwise only existence, kind and size are compared.
        on_bytes: called with the number of bytes hashed since the last call.

    Raises:
        StorageError: the folder cannot be listed.
    """
    problems = [*_file_problems(version, full, on_bytes), *_stray_files(version)]
    problems += [*_manifest_problems(version), *_lock_problems(version)]
    return VerificationReport(
        reference=version.reference,
        files=len(version.lock.files),
        size=version.size,
        full=full,
        problems=tuple(sorted(problems, key=lambda problem: problem.path)),
    )


def _file_problems(
    version: ModelVersion, full: bool, on_bytes: OnBytes | None
) -> Iterator[Problem]:
    for file in version.lock.files:
        problem = _compare_status(version.path, file)
        if problem is None and full:
            problem = _compare_content(version.path, file, on_bytes)
        if problem is not None:
            yield problem


def _compare_status(folder: Path, file: FileDigest) -> Problem | None:
    try:
        link = _first_link(folder, file.path)
        status = (folder / file.path).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return Problem(file.path, ProblemKind.MISSING, f"{file.path} is missing.")
    except OSError as error:
        return _unreadable(file.path, error)
    if link is not None:
        return Problem(file.path, ProblemKind.SYMLINK, f"{link} is a symbolic link.")
    if not stat.S_ISREG(status.st_mode):
        return Problem(file.path, ProblemKind.NOT_A_FILE, f"{file.path} is no regular file.")
    return _compare_size(file, status.st_size)


def _compare_size(file: FileDigest, size: int) -> Problem | None:
    if size == file.size:
        return None
    detail = f"{file.path} has {size} bytes, the lock says {file.size}."
    return Problem(file.path, ProblemKind.SIZE, detail)


def _compare_content(folder: Path, file: FileDigest, on_bytes: OnBytes | None) -> Problem | None:
    try:
        _, sha256 = sha256_file(folder / file.path, on_bytes)
    except OSError as error:
        return _unreadable(file.path, error)
    if sha256 == file.sha256:
        return None
    detail = f"{file.path} has SHA-256 {sha256}, the lock says {file.sha256}."
    return Problem(file.path, ProblemKind.DIGEST, detail)


def _first_link(folder: Path, relative: str) -> str | None:
    path = folder
    for part in relative.split("/"):
        path = path / part
        if path.is_symlink():
            return path.relative_to(folder).as_posix()
    return None


def _stray_files(version: ModelVersion) -> Iterator[Problem]:
    known = {file.path for file in version.lock.files}
    with storage_errors(version.path):
        found = list_files(version.path)
    for path in found:
        if path in known:
            continue
        if (version.path / path).is_symlink():
            yield Problem(path, ProblemKind.SYMLINK, f"{path} is a symbolic link.")
        else:
            yield Problem(path, ProblemKind.EXTRA, f"{path} is not in the lock.")


def _manifest_problems(version: ModelVersion) -> Iterator[Problem]:
    try:
        manifest = read_manifest(version.path)
    except MrsError as error:
        yield Problem("manifest.json", ProblemKind.MANIFEST, error.message)
        return
    known = {file.path for file in version.lock.files}
    for graph in manifest.graphs():
        if graph not in known:
            detail = f"manifest.json names the graph {graph}, which is not in the lock."
            yield Problem("manifest.json", ProblemKind.MANIFEST, detail)


def _lock_problems(version: ModelVersion) -> Iterator[Problem]:
    if input_digest(version.lock.inputs) != version.lock.input_digest:
        detail = "mrs.lock: the input digest is not that of its inputs."
        yield Problem("mrs.lock", ProblemKind.LOCK, detail)


def _unreadable(path: str, error: OSError) -> Problem:
    detail = f"{path} cannot be read: {error.strerror or error}."
    return Problem(path, ProblemKind.UNREADABLE, detail)
