"""How many threads are worth starting."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mrs.cpu import usable_cpus


@pytest.fixture(autouse=True)
def _eight_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))


def usable(folder: Path, quotas: dict[str, str], group: str = "0::/\n") -> int:
    """With these ``cpu.max`` files by group, for a process in ``group``."""
    for name, quota in quotas.items():
        (folder / "cgroup" / name).mkdir(parents=True, exist_ok=True)
        (folder / "cgroup" / name / "cpu.max").write_text(quota, encoding="latin-1")
    (folder / "membership").write_text(group)
    return usable_cpus(folder / "cgroup", folder / "membership")


@pytest.mark.parametrize(
    ("quota", "cpus"),
    [
        ("max 100000", 8),
        ("200000 100000", 2),
        ("390000 100000", 3),
        ("1600000 100000", 8),
        ("50000 100000", 1),
        ("1000 100000", 1),
        ("100000 50000\n", 2),
    ],
)
def test_a_quota_cuts_the_processors_down(tmp_path: Path, quota: str, cpus: int) -> None:
    assert usable(tmp_path, {"": quota}) == cpus


@pytest.mark.parametrize("quota", ["", "nonsense", "100000", "100000 0", "a b", "\xff 1"])
def test_a_quota_that_cannot_be_read_counts_as_none(tmp_path: Path, quota: str) -> None:
    assert usable(tmp_path, {"": quota}) == 8


@pytest.mark.parametrize("limited", ["", "a.slice", "a.slice/b.service"])
def test_the_smallest_quota_around_the_process_counts(tmp_path: Path, limited: str) -> None:
    quotas = {"": "700000 100000", "a.slice": "600000 100000", "a.slice/b.service": "max 100000"}
    quotas |= {limited: "300000 100000", "other": "100000 100000"}
    assert usable(tmp_path, quotas, "1:cpu:/other\n0::/a.slice/b.service\n") == 3


def test_a_group_outside_of_what_is_mounted_is_not_looked_for(tmp_path: Path) -> None:
    assert usable(tmp_path, {"": "500000 100000", "../x": "100000 100000"}, "0::/../x\n") == 5


def test_without_cgroups_all_of_the_affinity_mask_counts(tmp_path: Path) -> None:
    assert usable_cpus(tmp_path / "none", tmp_path / "nothing") == 8


def test_the_affinity_mask_of_this_process_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3})
    assert usable(tmp_path, {"": "200000 100000"}) == 1
