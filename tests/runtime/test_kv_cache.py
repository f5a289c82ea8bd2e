"""Slots of the cache: layout, moving, and giving memory back."""

from __future__ import annotations

import mmap

import numpy as np
import psutil
import pytest

from mrs.runtime.kv_cache import KVCache, KVCacheShape

SHAPE = KVCacheShape(num_layers=2, slots=3, num_kv_heads=2, min_capacity=100, head_dim=64)


def test_capacity_lets_every_head_start_on_a_page() -> None:
    assert SHAPE.capacity == 112
    assert SHAPE.capacity * SHAPE.head_dim * 4 % mmap.PAGESIZE == 0


@pytest.mark.parametrize("head_dim", [8, 24, 64, 80, 96, 128, 256])
def test_capacity_is_never_below_what_was_asked(head_dim: int) -> None:
    shape = KVCacheShape(1, 1, 1, 777, head_dim)
    assert shape.capacity >= 777
    assert shape.capacity * head_dim * 4 % mmap.PAGESIZE == 0


def test_addresses_are_those_of_the_slot_views() -> None:
    cache = KVCache(SHAPE)
    for layer in range(2):
        for slot in range(3):
            view = cache.slot_view(layer, slot)
            for which in (0, 1):
                assert cache.address(layer, which, slot) == view[which].ctypes.data


def test_a_move_carries_the_tokens_of_all_layers_and_empties_the_source() -> None:
    cache = KVCache(SHAPE)
    rng = np.random.default_rng(0)
    for layer in range(2):
        cache.slot_view(layer, 2)[:, :, :7] = rng.normal(size=(2, 2, 7, 64))
    before = [cache.slot_view(layer, 2)[:, :, :7].copy() for layer in range(2)]
    cache.move(2, 0, 7)
    for layer in range(2):
        np.testing.assert_array_equal(cache.slot_view(layer, 0)[:, :, :7], before[layer])
        assert not cache.slot_view(layer, 2).any()


def test_memory_comes_with_use_and_goes_with_release() -> None:
    """100 MB of cache cost nothing until touched, and nothing again after release."""
    process = psutil.Process()
    shape = KVCacheShape(num_layers=1, slots=2, num_kv_heads=8, min_capacity=8192, head_dim=96)
    slot_bytes = 2 * 8 * 8192 * 96 * 4
    before = process.memory_info().rss
    cache = KVCache(shape)
    assert process.memory_info().rss - before < slot_bytes // 4
    cache.slot_view(0, 0)[...] = 1.0
    cache.slot_view(0, 1)[...] = 2.0
    assert process.memory_info().rss - before > 1.8 * slot_bytes
    cache.release(0)
    assert process.memory_info().rss - before < 1.2 * slot_bytes
    assert not cache.slot_view(0, 0)[:, :, :4].any()
    assert (cache.slot_view(0, 1) == 2.0).all()


def test_the_bytes_of_a_row_are_those_of_its_pages() -> None:
    """A page holds 16 tokens of 64 numbers; there are 2 layers of 2 heads, keys and values."""
    page = 2 * 2 * 2 * mmap.PAGESIZE
    assert [SHAPE.committed_bytes(n) for n in (0, 1, 16, 17)] == [0, page, page, 2 * page]


def test_memory_is_what_the_shape_says() -> None:
    process = psutil.Process()
    shape = KVCacheShape(num_layers=4, slots=1, num_kv_heads=8, min_capacity=4096, head_dim=80)
    cache = KVCache(shape)
    before = process.memory_info().rss
    for layer in range(4):
        cache.slot_view(layer, 0)[:, :, :1001] = 1.0
    grown = process.memory_info().rss - before
    assert abs(grown - shape.committed_bytes(1001)) < shape.committed_bytes(1001) // 20


def test_what_is_trimmed_is_given_back_and_the_rest_stays() -> None:
    process = psutil.Process()
    shape = KVCacheShape(num_layers=4, slots=2, num_kv_heads=8, min_capacity=4096, head_dim=80)
    cache = KVCache(shape)
    for layer in range(4):
        for slot in (0, 1):
            cache.slot_view(layer, slot)[...] = 1.0
    before = process.memory_info().rss
    cache.trim(0, 1001)
    given_back = shape.committed_bytes(shape.capacity) - shape.committed_bytes(1001)
    assert abs(before - process.memory_info().rss - given_back) < given_back // 20
    cache.trim(0, shape.capacity)
    for layer in range(4):
        assert (cache.slot_view(layer, 0)[:, :, :1001] == 1.0).all()
        assert not cache.slot_view(layer, 0)[:, :, 1100:].any()
        assert (cache.slot_view(layer, 1) == 1.0).all()


def test_one_token_commits_no_huge_pages() -> None:
    process = psutil.Process()
    cache = KVCache(KVCacheShape(8, 2, 8, 8192, 64))
    before = process.memory_info().rss
    for layer in range(8):
        cache.slot_view(layer, 0)[:, :, 0] = 1.0
    assert process.memory_info().rss - before < 2 * 8 * 8 * 2 * mmap.PAGESIZE
