"""A look at a version's files before they are loaded."""

from __future__ import annotations

from dataclasses import replace

from mrs.model_repo.verification import verify
from mrs.model_repo.version import ModelVersion


def check_files(version: ModelVersion) -> None:
    """Refuse a version that lacks files, or whose files have other sizes than its lock says.

    Raises:
        CorruptVersionError: so it is.
    """
    known = {file.path for file in version.lock.files}
    report = verify(version, full=False)
    # What else lies in the folder is not read, and does no harm.
    problems = tuple(problem for problem in report.problems if problem.path in known)
    replace(report, problems=problems).require_ok()
