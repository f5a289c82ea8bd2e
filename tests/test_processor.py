from __future__ import annotations

from pathlib import Path

import pytest

from mrs.processor import read_processor

HASWELL = "fpu sse4_2 avx fma avx2 bmi2"
SKYLAKE_SERVER = HASWELL + " avx512f avx512bw avx512vl"


@pytest.mark.parametrize(
    ("line", "overflow"),
    [
        (f"flags : {HASWELL}", True),
        (f"flags : {SKYLAKE_SERVER}", True),
        (f"flags : {SKYLAKE_SERVER} avx512_vnni", False),
        (f"flags : {HASWELL} avx_vnni", False),
        ("Features : fp asimd asimddp i8mm", False),
        ("", False),
    ],
)
def test_sums_of_byte_products_overflow_on_x86_without_vnni(
    tmp_path: Path, line: str, overflow: bool
) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(f"processor : 0\n{line}\n")
    assert read_processor(file).byte_products_overflow is overflow


def test_a_file_of_something_else_says_nothing(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_bytes(b"\xff\x00: :\n\n:::\n")
    found = read_processor(file)
    assert found.name
    assert not found.flags
    assert found.cores >= 1
