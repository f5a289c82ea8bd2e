from __future__ import annotations

from pathlib import Path

import pytest

from mrs.memory import available_memory


def test_it_is_what_the_system_calls_available(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       24000000 kB\nMemAvailable:   1000 kB\n")
    assert available_memory(meminfo) == 1_024_000


@pytest.mark.parametrize("text", ["", "MemAvailable:\n", "MemAvailable: many kB\n"])
def test_a_system_that_does_not_tell(tmp_path: Path, text: str) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(text)
    assert available_memory(meminfo) is None
    assert available_memory(tmp_path / "none") is None
