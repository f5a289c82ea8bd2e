from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mrs.cli.app import invoke
from mrs.model_repo.repository import ModelRepository


@dataclass(frozen=True)
class Result:
    """What one command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Stdout as the one JSON document that it must be."""
        return json.loads(self.out)


Mrs = Callable[..., Result]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelRepository:
    """The default repository of the commands, empty."""
    root = tmp_path / "models"
    monkeypatch.setenv("MRS_MODEL_REPO", str(root))
    return ModelRepository(root)


@pytest.fixture
def mrs(repository: ModelRepository, capsys: pytest.CaptureFixture[str]) -> Mrs:
    """Run ``mrs`` in this process."""

    def call(*arguments: str) -> Result:
        capsys.readouterr()
        code = invoke(arguments)
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Result(code, captured.out, captured.err)

    return call
