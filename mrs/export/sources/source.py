"""A model source that was found: a local file, and what to record of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mrs.model_repo.lock import SourceRecord


@dataclass(frozen=True)
class ResolvedSource:
    """A checkpoint file on this machine.

    Attributes:
        record: where it came from and its digest, free of anything particular to this machine.
        path: the file.
        model_name: the name that the model gets unless the user chooses one.
    """

    record: SourceRecord
    path: Path
    model_name: str
