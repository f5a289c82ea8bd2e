from __future__ import annotations

import mmap
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mrs.export.parity import mapped_weights
from mrs.export.parity.mapped_weights import lean_mapping
from mrs.mappings import clean_mappings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pages are given back on Linux")

SIZE = 8 << 20


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a name with spaces" / "model.onnx.data"
    path.parent.mkdir()
    path.write_bytes(bytes(range(256)) * (SIZE // 256))
    return path


@pytest.fixture
def mapping(file: Path) -> Iterator[mmap.mmap]:
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        yield mapped


def touch(mapping: mmap.mmap) -> int:
    return sum(mapping[:: mmap.PAGESIZE])


def resident(file: Path) -> int:
    """Bytes of a file's mappings that count as memory of this process."""
    smaps = Path("/proc/self/smaps").read_text().split(f"{file}\n", 1)[1]
    found = re.search(r"Rss: +(\d+) kB", smaps)
    assert found is not None
    return int(found[1]) * 1024


class Once(threading.Event):
    """Lets a loop run once."""

    rounds = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.rounds += 1
        return self.rounds > 1


def test_pages_are_given_back_and_come_again(file: Path, mapping: mmap.mmap) -> None:
    before = touch(mapping)
    assert resident(file) == SIZE
    mappings = clean_mappings(file)
    assert sum(mapping.size for mapping in mappings) == SIZE
    mapped_weights._give_back(mappings, Once())
    assert resident(file) == 0
    assert touch(mapping) == before


def test_other_mappings_are_left_alone(file: Path, mapping: mmap.mmap, tmp_path: Path) -> None:
    touch(mapping)
    other = tmp_path / "other"
    other.write_bytes(b"x")
    assert clean_mappings(other) == []
    mapped_weights._give_back(clean_mappings(other), Once())
    assert resident(file) == SIZE


@pytest.mark.usefixtures("mapping")
def test_the_work_ends_with_the_context(file: Path) -> None:
    threads = threading.active_count()
    with lean_mapping(file):
        assert threading.active_count() == threads + 1
    assert threading.active_count() == threads


def test_without_a_mapping_there_is_no_work(tmp_path: Path) -> None:
    threads = threading.active_count()
    with lean_mapping(tmp_path / "missing"):
        assert threading.active_count() == threads
