"""``measurements.json``: what was measured of a version on the machine that made it.

No two measurements of a speed are equal, so the file is no part of the artifact: no lock names it
and no digest covers it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mrs.canonical_json import canonical_json
from mrs.errors import MrsError
from mrs.model_repo.digests import MEASUREMENTS_FILE_NAME
from mrs.model_repo.lock_file import read_metadata
from mrs.model_repo.storage import storage_errors

_LARGEST = 64 << 10
_Rate = Field(gt=0, allow_inf_nan=False)


class Measurements(BaseModel):
    """Speeds, and where they were measured.

    Attributes:
        decode_tokens_per_second: one sequence, one token at a time.
        prefill_tokens_per_second: one prompt.
        threads: threads of each operator.
        processor: what the machine calls its processor.
        onnxruntime: version that ran the graph.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    decode_tokens_per_second: float = _Rate
    prefill_tokens_per_second: float = _Rate
    threads: int = Field(gt=0)
    processor: str
    onnxruntime: str


def write_measurements(folder: Path, measurements: Measurements) -> None:
    """Write ``folder/measurements.json``.

    Raises:
        StorageError: it cannot be written.
    """
    path = folder / MEASUREMENTS_FILE_NAME
    with storage_errors(path):
        path.write_bytes(canonical_json(measurements.model_dump(mode="json")))


def read_measurements(folder: Path) -> Measurements | None:
    """What was measured of a version; None if nothing was, or the file cannot be used."""
    path = folder / MEASUREMENTS_FILE_NAME
    if not os.path.lexists(path):
        return None
    try:
        return Measurements.model_validate_json(read_metadata(path, _LARGEST), strict=True)
    except (MrsError, ValidationError):
        return None
