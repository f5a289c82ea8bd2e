"""4-bit blocks against gguf's values.

Scales and minimums of Q4_1 and Q4_K are float16 values times small integers, so that their
products with 4-bit codes are exact in float32. gguf rounds once, when it subtracts the minimum.
So do the blocks where the offset itself is exact, which it is wherever the zero point comes within
half a step of the minimum; elsewhere the offset is rounded too.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from mrs.export.quantization.dequantize import dequantize
from mrs.export.quantization.int4_blocks import (
    has_offsets,
    is_int4,
    pack_nibbles,
    to_int4_blocks,
)
from tests.export.gguf_files import quantize, random_blocks
from tests.export.quantization.block_scales import any_blocks

# A cast of NaN or infinity to a code would only warn.
pytestmark = pytest.mark.filterwarnings("error")

UNIT = 2.0**-24  # The largest relative error of a rounding to float32.


def normal(rows: int = 30, columns: int = 512) -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32)


def test_q4_0_keeps_its_values_bit_for_bit() -> None:
    tensor = any_blocks("Q4_0", 50, 256)
    blocks = to_int4_blocks(tensor.data, "Q4_0")
    assert not blocks.offsets.any()
    np.testing.assert_array_equal(blocks.dequantize(), dequantize(tensor.data, "Q4_0"))


def test_q4_1_keeps_the_values_of_common_weights() -> None:
    tensor = quantize(normal(), "Q4_1")
    blocks = to_int4_blocks(tensor.data, "Q4_1")
    np.testing.assert_array_equal(blocks.dequantize(), dequantize(tensor.data, "Q4_1"))
    assert np.all(np.abs(blocks.offsets) <= np.abs(blocks.scales) / 2)


@pytest.mark.parametrize(("dtype", "halves"), [("Q4_1", (0, 2)), ("Q4_K", (0, 2))])
def test_values_are_exact_where_the_zero_point_reaches_the_minimum(
    dtype: str, halves: tuple[int, ...]
) -> None:
    tensor = any_blocks(dtype, 400, 512, halves=halves)
    blocks = to_int4_blocks(tensor.data, dtype)
    reached = np.abs(blocks.offsets) <= np.abs(blocks.scales) / 2
    got = blocks.dequantize().reshape(blocks.codes.shape)[reached]
    expected = dequantize(tensor.data, dtype).reshape(blocks.codes.shape)[reached]
    assert 100 < len(got) < reached.size  # Both kinds of blocks occur.
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("dtype", "halves"), [("Q4_1", (0, 2)), ("Q4_K", (0, 2))])
@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_values_are_off_by_the_rounding_of_the_offset_at_most(
    dtype: str, halves: tuple[int, ...], seed: int
) -> None:
    tensor = any_blocks(dtype, 2, 512, seed, halves=halves)
    blocks = to_int4_blocks(tensor.data, dtype)
    expected = dequantize(tensor.data, dtype).reshape(blocks.codes.shape)
    error = np.abs(blocks.dequantize().reshape(expected.shape) - expected)
    # One rounding of the offset, and one more on each side.
    allowed = UNIT * (np.abs(blocks.offsets[..., None]) + 2 * np.abs(expected))
    assert np.all(error <= 1.0001 * allowed)


def test_k_blocks_keep_random_codes_and_factors() -> None:
    tensor = random_blocks("Q4_K", (20, 1024))
    expected = dequantize(tensor.data, "Q4_K")
    got = to_int4_blocks(tensor.data, "Q4_K").dequantize()
    np.testing.assert_allclose(got, expected, rtol=0, atol=4 * UNIT * np.abs(expected).max())


@pytest.mark.parametrize(("low", "high"), [(1, 2), (-2, -1), (100, 101), (-101, -100)])
def test_offsets_take_what_no_zero_point_reaches(low: float, high: float) -> None:
    values = np.random.default_rng(0).uniform(low, high, (4, 64)).astype(np.float32)
    tensor = quantize(values, "Q4_1")
    blocks = to_int4_blocks(tensor.data, "Q4_1")
    assert np.all(blocks.zero_points == (0 if low > 0 else 15))
    assert np.all(np.abs(blocks.offsets) > blocks.scales)
    np.testing.assert_array_equal(blocks.dequantize(), dequantize(tensor.data, "Q4_1"))


@pytest.mark.parametrize("value", [0.0, 3.0, -3.0])
def test_a_constant_block_has_no_step_and_is_all_offset(value: float) -> None:
    tensor = quantize(np.full((2, 64), value, dtype=np.float32), "Q4_1")
    blocks = to_int4_blocks(tensor.data, "Q4_1")
    assert not blocks.scales.any()
    assert np.all(blocks.offsets == value)
    assert np.all(blocks.dequantize() == value)


@pytest.mark.parametrize("dtype", ["Q4_0", "Q4_1", "Q4_K"])
def test_codes_and_zero_points_have_four_bits(dtype: str) -> None:
    blocks = to_int4_blocks(any_blocks(dtype, 20, 512, halves=(0, 2)).data, dtype)
    assert blocks.codes.max() == 15
    assert blocks.zero_points.max() <= 15


@pytest.mark.parametrize(
    ("dtype", "int4", "offsets"),
    [
        ("Q4_0", True, False),
        ("Q4_1", True, True),
        ("Q4_K", True, True),
        ("Q5_0", False, False),
        ("Q8_0", False, False),
        ("F16", False, False),
        ("IQ4_NL", False, False),  # Its codes are indices of a table.
    ],
)
def test_which_types_are_kept(dtype: str, int4: bool, offsets: bool) -> None:
    assert (is_int4(dtype), has_offsets(dtype)) == (int4, offsets)


# --- nibbles --------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(
    arrays(np.uint8, st.tuples(st.integers(1, 3), st.integers(1, 9)), elements=st.integers(0, 15))
)
def test_packed_nibbles_unpack_to_the_codes(codes: NDArray[np.uint8]) -> None:
    packed = pack_nibbles(codes)
    unpacked = np.stack([packed & 15, packed >> 4], axis=-1).reshape(len(codes), -1)
    np.testing.assert_array_equal(unpacked[:, : codes.shape[1]], codes)
    assert not unpacked[:, codes.shape[1] :].any()
    assert packed.shape[1] == (codes.shape[1] + 1) // 2


def test_the_first_of_a_pair_is_the_low_nibble() -> None:
    """As MatMulNBits reads them."""
    assert pack_nibbles(np.array([[1, 2, 15]], dtype=np.uint8)).tolist() == [[0x21, 0x0F]]
