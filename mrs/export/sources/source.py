"""A model source that was found: a local file or folder, and what to record of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mrs.model_repo.lock import SourceRecord


@dataclass(frozen=True)
class ResolvedSource:
    """A checkpoint on this machine.

    Attributes:
        record: where it came from and its digests, free of anything particular to this machine.
        path: a .gguf file (the first part of a split one), or a folder with ``config.json``.
        model_name: the name that the model gets unless the user chooses one.
    """

    record: SourceRecord
    path: Path
    model_name: str
