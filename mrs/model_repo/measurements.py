"""How fast a version ran on the machine that holds it.

No two measurements are equal, and another machine has other speeds: they are kept in the
repository, beside the versions and not in them, so that the same input gives the same bytes.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mrs.canonical_json import canonical_json
from mrs.errors import StorageError
from mrs.model_repo.digests import read_small_file
from mrs.model_repo.layout import MEASUREMENTS_FOLDER, make_folder
from mrs.model_repo.storage import storage_errors
from mrs.model_repo.version import ModelVersion

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


def write_measurements(version: ModelVersion, measurements: Measurements) -> None:
    """Keep the speeds of a version of a repository.

    Raises:
        StorageError: they cannot be written.
    """
    path = _path(version)
    if path is None:
        raise StorageError(f"{version.path} is in no repository.")
    with storage_errors(path):
        make_folder(path.parent.parent)
        make_folder(path.parent)
        path.write_bytes(canonical_json(measurements.model_dump(mode="json")))


def read_measurements(version: ModelVersion) -> Measurements | None:
    """The speeds of a version; None if none were measured, or the file cannot be used."""
    path = _path(version)
    if path is None:
        return None
    with suppress(OSError, ValidationError):
        return Measurements.model_validate_json(read_small_file(path, _LARGEST), strict=True)
    return None


def _path(version: ModelVersion) -> Path | None:
    if version.number is None:
        return None
    folder = version.path.parents[1] / MEASUREMENTS_FOLDER / version.name
    return folder / f"{version.number}.json"
