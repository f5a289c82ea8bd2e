"""What rows take, and to which lengths they can be cut, where layers have windows."""

from __future__ import annotations

import mmap

import pytest

from mrs.runtime.kv_cache_shape import KVCacheShape, KVCacheType, LayerShape


def test_a_layer_with_a_window_has_room_for_it_and_some_slack() -> None:
    shape = KVCacheShape(2, 1, 1, 32_768, 256, windows=(512, None))
    windowed, whole = shape.layers
    assert (windowed.capacity, whole.capacity) == (1024, 32_768)


def test_a_window_that_holds_the_whole_context_takes_no_more_than_it() -> None:
    shape = KVCacheShape(1, 1, 1, 640, 256, windows=(512,))
    assert shape.layers[0].capacity == shape.capacity == 640


def test_the_room_is_never_below_the_window() -> None:
    """The operator refuses less, even where the context is shorter."""
    assert KVCacheShape(1, 1, 1, 100, 64, windows=(4096,)).layers[0].capacity == 4096


def test_heads_of_bytes_start_on_pages_too() -> None:
    shape = KVCacheShape(1, 1, 2, 1000, 80, type=KVCacheType.INT8)
    assert shape.capacity == 1024
    assert shape.capacity * 80 % mmap.PAGESIZE == 0
    assert shape.bytes_per_token == 2 * 2 * 80


def test_bytes_take_a_quarter_of_floats() -> None:
    sizes = [KVCacheShape(30, 1, 3, 8192, 64, type=each) for each in KVCacheType]
    floats, integers = (shape.committed_bytes(2048) for shape in sizes)
    assert floats == 4 * integers == 2048 * 30 * 2 * 3 * 64 * 4


def test_a_long_row_costs_what_its_global_layers_cost() -> None:
    """Gemma 3 270M: 3 of 18 layers see everything, the others 512 tokens."""
    windows = tuple(None if layer % 6 == 5 else 512 for layer in range(18))
    shape = KVCacheShape(18, 1, 1, 32_768, 256, windows=windows)
    token = 2 * 256 * 4
    assert shape.committed_bytes(32_768) == token * (3 * 32_768 + 15 * 1024)
    assert shape.committed_bytes(100) == token * 18 * 100


@pytest.mark.parametrize(("window", "capacity"), [(1, 1), (8, 8), (8, 9), (8, 20), (64, 96)])
def test_the_layout_is_what_dropping_token_by_token_gives(window: int, capacity: int) -> None:
    """As ONNX Runtime's documentation has it: the room fills up, then all but a window goes.

    So one token more than fits leaves the window that ends with it.
    """
    layer = LayerShape(1, capacity, 8, 4, window)
    first = 0
    for tokens in range(1, 300):
        if tokens - first > capacity:
            first = tokens - window
        assert layer.first_kept(tokens) == first
        assert layer.kept(tokens) == tokens - first


def test_a_row_can_be_cut_to_what_its_windows_still_hold() -> None:
    """With room for 20 tokens and a window of 8, 13 tokens are dropped at once."""
    shape = KVCacheShape(2, 1, 1, 400, 64, windows=(8, None))
    small = LayerShape(1, 20, 64, 4, 8)
    shape.__dict__["layers"] = (small, shape.layers[1])
    assert all(shape.can_reuse(20, length) for length in range(1, 21))
    assert [shape.can_reuse(21, length) for length in (1, 20, 21)] == [False, False, True]
    assert [shape.can_reuse(33, length) for length in (20, 21, 32)] == [False, True, True]
    assert not shape.can_reuse(34, 33)


def test_a_row_without_windows_can_be_cut_to_any_length() -> None:
    shape = KVCacheShape(2, 1, 1, 400, 64)
    assert all(shape.can_reuse(400, length) for length in range(1, 401))
