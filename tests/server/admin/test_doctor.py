from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from mrs.errors import RuntimeUnavailableError
from mrs.server.admin import doctor
from mrs.server.admin.doctor import CheckStatus, Report, diagnose
from mrs.server.admin.system_info import SystemInfo, system_info

OK, WARN, ERROR = CheckStatus.OK, CheckStatus.WARN, CheckStatus.ERROR


@pytest.fixture(scope="module")
def system() -> SystemInfo:
    return system_info()


def changed(system: SystemInfo, part: str, **values: Any) -> SystemInfo:
    return system.model_copy(update={part: getattr(system, part).model_copy(update=values)})


def fail() -> None:
    raise OSError("no network")


def test_python_must_be_new_enough() -> None:
    assert doctor.check_python((3, 11, 0)).status is OK
    assert doctor.check_python((3, 10, 9)).status is ERROR


def test_onnx_runtime_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.check_runtime().status is OK

    def missing() -> str:
        raise RuntimeUnavailableError("ONNX Runtime is not installed.", hint="Install one.")

    monkeypatch.setattr("mrs.runtime.session_pool.require_runtime", missing)
    found = doctor.check_runtime()
    assert (found.status, found.suggestion) == (ERROR, "Install one.")


def test_a_processor_without_avx2_is_slow(system: SystemInfo) -> None:
    for avx2, status in ((True, OK), (False, WARN)):
        cpu = changed(system, "cpu", architecture="x86_64", avx2=avx2)
        assert doctor.check_processor(cpu).status is status


def test_a_quota_is_told(system: SystemInfo) -> None:
    cpu = changed(system, "cpu", logical_cores=8, usable_cores=2)
    assert doctor.check_quota(cpu).message == "2 of 8 processors may be used."


def test_little_memory_is_warned_of(system: SystemInfo) -> None:
    for free, status in ((100 << 20, WARN), (4 << 30, OK), (0, OK)):
        memory = changed(system, "memory", available_bytes=free)
        assert doctor.check_memory(memory).status is status


@pytest.mark.parametrize(("free", "status"), [(1 << 20, ERROR), (1 << 30, WARN), (1 << 40, OK)])
def test_disks_fill(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: int, status: CheckStatus
) -> None:
    usage = type("Usage", (), {"free": free})
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: usage)
    assert doctor.check_disk(tmp_path / "not" / "yet").status is status


def test_a_taken_port_is_warned_of() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert doctor.check_port(port).status is WARN
    assert doctor.check_port(port).status is OK


def test_a_clock_that_is_behind_is_wrong() -> None:
    assert doctor.check_clock(0.0).status is ERROR
    assert doctor.check_clock(4e9).status is OK


def test_the_hub_need_not_be_reached_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert doctor.check_hub(fail).status is OK
    monkeypatch.delenv("HF_HUB_OFFLINE")
    assert doctor.check_hub(fail).status is WARN
    assert doctor.check_hub(lambda: None).status is OK


def test_a_cache_that_cannot_be_written_is_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert doctor.check_cache(tmp_path).status is OK
    assert doctor.check_cache(file / "below").status is WARN


def test_warnings_are_no_illness() -> None:
    report = diagnose(None, reach_hub=fail)
    assert isinstance(report, Report)
    assert report.healthy == (not [each for each in report.checks if each.status is ERROR])
    broken = report.model_copy(update={"checks": [doctor.check_python((3, 8))]})
    assert not broken.healthy
