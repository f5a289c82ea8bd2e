"""Servers of the real model, and commands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mrs.model_repo.version import ModelVersion
from tests.e2e.command_process import Commands
from tests.e2e.server_process import ServerProcess


@pytest.fixture(scope="session")
def server(
    smollm2_fp32: ModelVersion, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """SmolLM2 in float32."""
    log = tmp_path_factory.mktemp("server") / "server.log"
    server = ServerProcess.start(smollm2_fp32.path, log, "--max-model-len", "2048")
    yield server
    assert server.stop() == 0, log.read_text()
    assert "Traceback" not in log.read_text()


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """Runs `mrs` commands, one at a time."""
    commands = Commands(tmp_path_factory.mktemp("commands"))
    yield commands
    commands.close()
