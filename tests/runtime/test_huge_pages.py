"""Which memory is put on huge pages, and that nothing in it changes."""

from __future__ import annotations

import mmap
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from mrs.mappings import Mapping, read_mappings
from mrs.runtime.huge_pages import collapse_resident_memory

SIZE = 16 << 20


def mapping_of(memory: NDArray[np.uint8]) -> Mapping:
    address = memory.ctypes.data
    return next(m for m in read_mappings() if m.start <= address < m.end)


@pytest.fixture
def memory() -> Iterator[NDArray[np.uint8]]:
    """16 MB of anonymous memory."""
    anonymous = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    yield np.frombuffer(anonymous, dtype=np.uint8)


def test_memory_in_use_is_collapsed_and_keeps_its_bytes(memory: NDArray[np.uint8]) -> None:
    memory[...] = np.random.default_rng(0).integers(0, 256, SIZE, dtype=np.uint8)
    before = memory.copy()
    collapse_resident_memory()
    np.testing.assert_array_equal(memory, before)
    huge = mapping_of(memory).kilobytes["AnonHugePages"]
    if huge == 0:
        pytest.skip("this kernel does not collapse pages")
    assert huge >= (SIZE >> 10) - 2 * 2048


def test_reserved_memory_stays_untouched(memory: NDArray[np.uint8]) -> None:
    memory[:4096] = 1
    collapse_resident_memory()
    assert mapping_of(memory).kilobytes["AnonHugePages"] == 0


def test_memory_that_was_advised_against_it_keeps_small_pages() -> None:
    anonymous = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    anonymous.madvise(mmap.MADV_NOHUGEPAGE)
    memory = np.frombuffer(anonymous, dtype=np.uint8)
    memory[...] = 1
    collapse_resident_memory()
    assert mapping_of(memory).kilobytes["AnonHugePages"] == 0
