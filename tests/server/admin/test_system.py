from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from mrs import __version__
from mrs.model_repo.repository import ModelRepository
from mrs.server.admin.system_info import hf_cache_path, system_info
from mrs.server.app import create_app
from mrs.server.settings import ServerSettings
from tests.model_repo.samples import publish
from tests.server.fake_engine import FakeEngine, served


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def test_the_machine_is_described(client: TestClient) -> None:
    info = client.get("/v1/system/info").json()
    assert info["os"] == platform.system()
    assert info["cpu"]["logical_cores"] == os.cpu_count()
    assert 1 <= info["cpu"]["usable_cores"] <= info["cpu"]["logical_cores"]
    assert 0 < info["memory"]["available_bytes"] <= info["memory"]["total_bytes"]
    assert info["build"]["version"] == __version__
    assert info["devices"][0]["kind"] == "cpu"


def test_instructions_and_cores_are_those_of_cpuinfo(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    block = (
        "processor : {0}\nmodel name : Fast CPU\nphysical id : 0\ncore id : {1}\n"
        "flags : fpu avx avx2 fma avx512f avx512_vnni\n"
    )
    file.write_text("\n".join(block.format(index, index // 2) for index in range(4)))
    cpu = system_info(file).cpu
    assert (cpu.brand, cpu.physical_cores) == ("Fast CPU", 2)
    assert (cpu.avx2, cpu.fma, cpu.avx512, cpu.avx512_vnni, cpu.amx) == (
        True,
        True,
        True,
        True,
        False,
    )


def test_a_machine_without_cpuinfo_is_described_too(tmp_path: Path) -> None:
    cpu = system_info(tmp_path / "nothing").cpu
    assert cpu.physical_cores == cpu.logical_cores
    assert not cpu.avx2


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}, "/a"),
        ({"HF_HOME": "/b", "XDG_CACHE_HOME": "/c"}, "/b/hub"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"),
    ],
)
def test_the_cache_is_where_the_hubs_client_has_it(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str
) -> None:
    for name in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert str(hf_cache_path()) == expected


def test_the_doctor_looks_at_the_repository(offline: None, tmp_path: Path) -> None:
    version = publish(ModelRepository(tmp_path))
    settings = ServerSettings(repository=tmp_path)
    client = TestClient(create_app(served(FakeEngine()), settings), base_url="http://127.0.0.1")
    checks = client.post("/v1/system/doctor").json()["checks"]
    (found,) = [check for check in checks if check["name"] == "repository"]
    assert (found["status"], "1 versions" in found["message"]) == ("ok", True)
    (version.path / "tokenizer.json").unlink()
    checks = client.post("/v1/system/doctor").json()["checks"]
    (found,) = [check for check in checks if check["name"] == "repository"]
    assert found["status"] == "error"
    assert "tiny:1" in found["message"]


def test_the_document_is_where_mistral_rs_has_it(client: TestClient) -> None:
    assert client.get("/api-doc/openapi.json").json() == client.get("/openapi.json").json()
