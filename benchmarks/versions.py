"""The exported version that a benchmark is given as a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mrs.model_repo.version import ModelVersion


def open_version(folder: Path | str) -> ModelVersion:
    """The version in a folder, ``REPOSITORY/NAME/NUMBER``; imports mrs only when it is called."""
    from mrs.model_repo.repository import ModelRepository

    path = Path(folder).resolve()
    return ModelRepository(path.parent).resolve(str(path))
