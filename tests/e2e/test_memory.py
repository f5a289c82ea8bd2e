"""Memory of real processes with a real model; `pytest -rP` shows the figures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from mrs.model_repo.version import ModelVersion
from tests.e2e.command_process import Commands
from tests.e2e.server_process import ServerProcess

MB = 1_000_000
# SmolLM2: keys and values of 30 layers, 3 heads of 64, in float32.
_KV_BYTES_PER_TOKEN = 2 * 30 * 3 * 64 * 4


@pytest.mark.parametrize("quant", ["q8", "fp32"])
def test_an_export_takes_no_more_than_its_artifact_and_300_mb(
    commands: Commands, smollm2_gguf: Path, tmp_path: Path, quant: str
) -> None:
    options = ("--repo", tmp_path, "--quant", quant, "--parity", "never", "--json")
    result = commands.mrs("export", smollm2_gguf, *options)
    assert result.code == 0, result.err
    size = result.json["size"]
    print(f"export {quant}: peak {result.peak / MB:.0f} MB, artifact {size / MB:.0f} MB")
    assert result.peak <= size + 300 * MB


def test_measuring_keeps_no_float32_weights_in_memory(
    commands: Commands, smollm2_gguf: Path, smollm2_fp32: ModelVersion, tmp_path: Path
) -> None:
    """They are read from a file of 0.5 GB, over and over."""
    result = commands.mrs("export", smollm2_gguf, "--repo", tmp_path, "--json")
    assert result.code == 0, result.err
    size, float32 = result.json["size"], smollm2_fp32.size
    print(f"measured: peak {result.peak / MB:.0f} MB, artifact {size / MB:.0f} MB")
    # The model is open twice, with either type of KV cache; the float32 weights are mapped once.
    assert result.peak <= 2 * size + float32 + 100 * MB


class MeasuredServer:
    """A server whose memory can be read."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._client = httpx.Client(base_url=server.url, timeout=300)
        self._folder = Path("/proc", str(server.process.pid))

    def resident(self) -> int:
        """Bytes in memory now."""
        return self._status("VmRSS")

    def peak(self) -> int:
        """Most bytes in memory since `forget_peak`."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        (self._folder / "clear_refs").write_text("5")

    def ask(self, words: int, answer: int) -> None:
        message = {"role": "user", "content": "word " * words}
        body = {"messages": [message], "max_tokens": answer, "temperature": 0}
        self._client.post("/v1/chat/completions", json=body).raise_for_status()

    def kv_bytes_when_idle(self) -> int:
        """An answer is out a moment before its slot is free: ask until nothing runs."""
        for _ in range(10_000):
            health = self._client.get("/health").json()
            if not health["running"] and not health["waiting"]:
                return int(health["kv_bytes"])
        raise AssertionError(f"still busy: {health}")

    def close(self) -> None:
        self._client.close()

    def _status(self, key: str) -> int:
        match = re.search(rf"{key}:\s+(\d+) kB", (self._folder / "status").read_text())
        assert match is not None
        return int(match[1]) * 1024


@pytest.fixture(params=["q8", "fp32"])
def version(request: pytest.FixtureRequest) -> ModelVersion:
    version: ModelVersion = request.getfixturevalue(f"smollm2_{request.param}")
    return version


@pytest.fixture
def measured(version: ModelVersion, tmp_path: Path) -> Iterator[MeasuredServer]:
    server = ServerProcess.start(version.path, tmp_path / "log", "--prefix-cache-bytes", "0")
    measured = MeasuredServer(server)
    yield measured
    measured.close()
    assert server.stop() == 0


def test_a_server_takes_its_artifact_and_250_mb_and_gives_the_cache_back(
    measured: MeasuredServer, version: ModelVersion
) -> None:
    measured.ask(words=1, answer=4)
    loaded = measured.resident()
    print(f"{version.name}: loaded {loaded / MB:.0f} MB, artifact {version.size / MB:.0f} MB")
    assert loaded <= version.size + 250 * MB

    measured.forget_peak()
    # Each answer is longer than the others' prefills take steps: all sixteen overlap.
    words, answer = 40, 20
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda _: measured.ask(words, answer), range(16)))
    assert measured.kv_bytes_when_idle() == 0
    peak, after = measured.peak(), measured.resident()
    print(f"{version.name}: peak {peak / MB:.0f} MB, after {after / MB:.0f} MB")
    cache = 16 * (words + answer) * _KV_BYTES_PER_TOKEN
    assert peak - loaded > cache
    assert after - loaded < cache * 2 // 3
