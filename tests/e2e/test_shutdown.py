"""SIGTERM drains: what runs is finished, nothing new is taken, the exit code is 0."""

from __future__ import annotations

from pathlib import Path

import httpx

from mrs.model_repo.version import ModelVersion
from tests.e2e.server_process import ServerProcess


def test_a_running_stream_is_finished(smollm2_q8: ModelVersion, tmp_path: Path) -> None:
    server = ServerProcess.start(smollm2_q8.path, tmp_path / "log", "--max-seqs", "2")
    stream = server.client().chat.completions.create(
        model="default",
        messages=[{"role": "user", "content": "Write a long story about a lighthouse."}],
        max_tokens=150,
        temperature=0,
        stream=True,
    )
    chunks = iter(stream)
    next(chunks)
    server.terminate()
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices]
    assert reasons[-1] in ("length", "stop")
    assert server.stop() == 0


def test_an_idle_server_ends_at_once(smollm2_q8: ModelVersion, tmp_path: Path) -> None:
    server = ServerProcess.start(smollm2_q8.path, tmp_path / "log")
    assert httpx.get(f"{server.url}/health/ready").status_code == 200
    assert server.stop() == 0
