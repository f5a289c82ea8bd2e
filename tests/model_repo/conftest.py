from __future__ import annotations

from pathlib import Path

import pytest

from mrs.model_repo.repository import ModelRepository


@pytest.fixture
def repository(tmp_path: Path) -> ModelRepository:
    """An empty repository whose folder does not exist yet."""
    return ModelRepository(tmp_path / "models")
