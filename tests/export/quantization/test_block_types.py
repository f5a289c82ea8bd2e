"""Every block type against gguf's values, over blocks with any bytes at all.

gguf multiplies scales and codes, whose product is exact in float32, and rounds once, when it
subtracts a minimum. So do the blocks.
"""

from __future__ import annotations

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrs.export.quantization.block_types import BLOCK_DTYPES, BlockType, block_type
from mrs.export.quantization.dequantize import READABLE_DTYPES
from tests.export.gguf_files import StoredTensor, dequantize, quantize, random_blocks

FLOATS = {"F32", "F16", "BF16"}


def kind_of(dtype: str) -> BlockType:
    kind = block_type(dtype)
    assert kind is not None
    return kind


def any_bytes(dtype: str, seed: int, rows: int = 2, columns: int = 512) -> StoredTensor:
    size, block_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[dtype]]
    shape = (rows, columns // size * block_bytes)
    return StoredTensor(dtype, np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("dtype", BLOCK_DTYPES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_blocks_of_any_bytes_have_the_values_that_gguf_reads(dtype: str, seed: int) -> None:
    """Bit for bit, but for the sign of zeros; and what is not finite is not finite here."""
    tensor, kind = any_bytes(dtype, seed), kind_of(dtype)
    blocks = kind.unpack(tensor.data)
    expected = dequantize(tensor).reshape(blocks.codes.shape)
    got = blocks.dequantize().reshape(blocks.codes.shape)
    finite = np.isfinite(expected).all(axis=-1)
    np.testing.assert_array_equal(got[finite], expected[finite])
    assert blocks.is_finite() == finite.all() or kind.offsets


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", BLOCK_DTYPES)
def test_blocks_of_common_weights_have_the_values_that_gguf_reads(dtype: str) -> None:
    tensor = random_blocks(dtype, (20, 1024))
    blocks = kind_of(dtype).unpack(tensor.data)
    np.testing.assert_array_equal(blocks.dequantize(), dequantize(tensor))
    assert blocks.is_finite()
    assert blocks.dequantize().std() > 0


@pytest.mark.parametrize("dtype", BLOCK_DTYPES)
def test_codes_and_zero_points_have_the_bits_that_the_type_says(dtype: str) -> None:
    kind = kind_of(dtype)
    blocks = kind.unpack(random_blocks(dtype, (8, 512)).data)
    assert (blocks.bits, blocks.block_size) == (kind.bits, kind.block_size)
    assert blocks.codes.max() < 2**kind.bits
    assert blocks.zero_points.max() < 2**kind.bits
    assert (blocks.offsets is not None) == kind.offsets


@pytest.mark.parametrize("dtype", BLOCK_DTYPES)
def test_rows_are_unpacked_apart(dtype: str) -> None:
    tensor = random_blocks(dtype, (4, 512))
    whole = kind_of(dtype).unpack(tensor.data).dequantize()
    rows = [kind_of(dtype).unpack(tensor.data[i : i + 1]).dequantize() for i in range(4)]
    np.testing.assert_array_equal(np.concatenate(rows), whole)


def test_all_readable_types_but_floats_are_block_types() -> None:
    assert set(BLOCK_DTYPES) == READABLE_DTYPES - FLOATS
    assert all(block_type(dtype) is None for dtype in FLOATS)


@pytest.mark.parametrize(("low", "high"), [(1, 2), (-2, -1), (100, 101), (-101, -100)])
def test_offsets_take_what_no_zero_point_reaches(low: float, high: float) -> None:
    values = np.random.default_rng(0).uniform(low, high, (4, 64)).astype(np.float32)
    tensor = quantize(values, "Q4_1")
    blocks = kind_of("Q4_1").unpack(tensor.data)
    assert blocks.offsets is not None
    assert np.all(np.abs(blocks.offsets) > blocks.scales)
    np.testing.assert_array_equal(blocks.dequantize(), dequantize(tensor))


@pytest.mark.parametrize("dtype", ["Q4_1", "Q5_1"])
def test_an_offset_of_common_weights_is_at_most_half_a_step(dtype: str) -> None:
    values = np.random.default_rng(0).normal(size=(30, 512)).astype(np.float32)
    blocks = kind_of(dtype).unpack(quantize(values, dtype).data)
    assert blocks.offsets is not None
    assert np.all(np.abs(blocks.offsets) <= np.abs(blocks.scales) / 2)


@pytest.mark.parametrize("value", [0.0, 3.0, -3.0])
def test_a_constant_block_has_no_step_and_is_all_offset(value: float) -> None:
    tensor = quantize(np.full((2, 64), value, dtype=np.float32), "Q4_1")
    blocks = kind_of("Q4_1").unpack(tensor.data)
    assert not blocks.scales.any()
    assert np.all(blocks.dequantize() == value)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_a_power_of_two_beyond_float32_is_not_finite() -> None:
    """MXFP4's largest exponents are finite, their products with the larger codes are not."""
    tensor = random_blocks("MXFP4", (2, 64))
    tensor.data[1, 0] = 254
    tensor.data[1, 1:17] = 0x77
    assert not kind_of("MXFP4").unpack(tensor.data).is_finite()
    tensor.data[1, 1:17] = 0x11
    blocks = kind_of("MXFP4").unpack(tensor.data)
    assert blocks.is_finite()
    np.testing.assert_array_equal(blocks.dequantize(), dequantize(tensor))
