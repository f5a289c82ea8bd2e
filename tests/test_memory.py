from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import pytest

from mrs.memory import available_memory, give_memory_back


def test_it_is_what_the_system_calls_available(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       24000000 kB\nMemAvailable:   1000 kB\n")
    assert available_memory(meminfo, tmp_path) == 1_024_000


@pytest.mark.parametrize("text", ["", "MemAvailable:\n", "MemAvailable: many kB\n"])
def test_a_system_that_does_not_tell(tmp_path: Path, text: str) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(text)
    assert available_memory(meminfo) is None
    assert available_memory(tmp_path / "none") is None


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """1000 kB are free; the process is in /outer/inner."""
    (tmp_path / "meminfo").write_text("MemAvailable:   1000 kB\n")
    (tmp_path / "membership").write_text("0::/outer/inner\n")
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    return tmp_path


def limit(group: Path, most: str, current: str, inactive: str = "0") -> None:
    (group / "memory.max").write_text(most)
    (group / "memory.current").write_text(current)
    (group / "memory.stat").write_text(f"anon 5\ninactive_file {inactive}\nactive_file 7\n")


def available(machine: Path) -> int | None:
    return available_memory(machine / "meminfo", machine, machine / "membership")


@pytest.mark.parametrize(
    ("outer", "inner", "free"),
    [
        (("max", "5"), ("max", "5"), 1_024_000),
        (("900000", "100000"), ("max", "5"), 800_000),
        (("900000", "100000"), ("500000", "100000"), 400_000),
        (("900000", "100000", "50000"), ("max", "5"), 850_000),
        (("9000000", "100000"), ("max", "5"), 1_024_000),
        (("100000", "900000"), ("max", "5"), 0),
        (("much", "5"), ("", ""), 1_024_000),
    ],
)
def test_the_tightest_group_bounds_it(
    machine: Path, outer: tuple[str, ...], inner: tuple[str, ...], free: int
) -> None:
    limit(machine / "outer", *outer)
    limit(machine / "outer" / "inner", *inner)
    assert available(machine) == free


def test_without_groups_it_is_the_systems(machine: Path) -> None:
    assert available(machine) == 1_024_000


def test_circles_are_given_back() -> None:
    class Circle:
        pass

    circle: Any = Circle()
    circle.itself = circle
    gone = weakref.ref(circle)
    del circle
    give_memory_back()
    assert gone() is None
