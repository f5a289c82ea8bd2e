from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrs.export.quantization.blocks import (
    QuantizedBlocks,
    blocks_with_minimum,
    symmetric_blocks,
)

# A cast of NaN or infinity to a code would only warn.
pytestmark = pytest.mark.filterwarnings("error")


def some_blocks(seed: int = 0, bits: int = 4, size: int = 64) -> QuantizedBlocks:
    rng = np.random.default_rng(seed)
    return QuantizedBlocks(
        bits,
        rng.integers(0, 2**bits, (3, 2, size), dtype=np.uint8),
        rng.normal(size=(3, 2)).astype(np.float32),
        rng.integers(0, 2**bits, (3, 2), dtype=np.uint8),
        rng.normal(size=(3, 2)).astype(np.float32),
    )


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([4, 8]))
def test_a_minimum_is_subtracted_with_one_rounding(seed: int, bits: int) -> None:
    """Whatever its size beside the scale: both are float16 times 6 bits, as in the K types."""
    rng = np.random.default_rng(seed)
    halves = rng.integers(0, 0x7C00, (2, 4, 5), dtype=np.uint16).view(np.float16)
    scales, minimums = halves.astype(np.float32) * rng.integers(-63, 64, (2, 4, 5))
    scales, minimums = scales.astype(np.float32), minimums.astype(np.float32)
    codes = rng.integers(0, 2 ** min(bits, 5), (4, 5, 32), dtype=np.uint8)
    blocks = blocks_with_minimum(codes, scales, minimums, bits)
    exact = codes * scales[..., None].astype(np.float64) - minimums[..., None]
    np.testing.assert_array_equal(blocks.dequantize(), exact.astype(np.float32).reshape(4, -1))


@pytest.mark.parametrize("size", [16, 32, 64])
def test_smaller_blocks_have_the_same_values(size: int) -> None:
    blocks = some_blocks()
    smaller = blocks.split(size)
    assert smaller.block_size == size
    np.testing.assert_array_equal(smaller.dequantize(), blocks.dequantize())


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_wider_codes_have_the_same_values(bits: int) -> None:
    blocks = some_blocks(bits=bits)
    wide = blocks.widen(8)
    assert wide.bits == 8
    np.testing.assert_array_equal(wide.dequantize(), blocks.dequantize())
    assert bits == 8 or np.all(wide.zero_points == 128)


def test_symmetric_blocks_are_around_the_middle() -> None:
    codes = np.array([[[0, 8, 15]]], dtype=np.uint8)
    blocks = symmetric_blocks(codes, np.array([[0.5]], dtype=np.float32), bits=4)
    assert blocks.dequantize().tolist() == [[-4.0, 0.0, 3.5]]


@pytest.mark.parametrize("spoilt", ["scales", "offsets"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_blocks_tell_whether_they_are_finite(spoilt: str, value: float) -> None:
    blocks = some_blocks()
    assert blocks.is_finite()
    getattr(blocks, spoilt)[1, 1] = value
    assert not blocks.is_finite()
