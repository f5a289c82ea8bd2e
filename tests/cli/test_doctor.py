from __future__ import annotations

import pytest

from mrs.model_repo.repository import ModelRepository
from tests.cli.conftest import Mrs
from tests.model_repo.samples import publish


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def test_a_sound_machine_is_exit_code_0(mrs: Mrs, repository: ModelRepository) -> None:
    publish(repository)
    result = mrs("doctor", "--json")
    assert result.code == 0
    assert {"python", "onnxruntime", "cpu_extensions", "memory", "disk_space", "repository"} <= {
        check["name"] for check in result.json["checks"]
    }


def test_a_damaged_version_is_exit_code_1(mrs: Mrs, repository: ModelRepository) -> None:
    version = publish(repository)
    (version.path / "tokenizer.json").unlink()
    result = mrs("doctor")
    assert result.code == 1
    assert "error repository: tiny:1 is damaged" in result.out
    assert "help: Delete it and export it again" in result.out
