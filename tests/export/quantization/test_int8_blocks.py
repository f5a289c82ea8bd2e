from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from mrs.export.quantization.dequantize import dequantize
from mrs.export.quantization.int8_blocks import (
    BLOCK_SIZE,
    can_block,
    is_exact,
    quantize_blocks,
    to_int8_blocks,
)
from tests.export.gguf_files import random_blocks
from tests.export.quantization.block_scales import any_blocks

# A cast of NaN or infinity to a code would only warn.
pytestmark = pytest.mark.filterwarnings("error")

Floats = NDArray[np.float32]
FLUSHED = 3e-36  # Blocks that span less become zeros.

any_matrix = arrays(
    np.float32,
    st.tuples(st.integers(1, 3), st.sampled_from([32, 64])),
    elements=st.one_of(st.floats(-2, 2, width=32), st.floats(width=32, allow_nan=False)),
).map(lambda values: np.clip(values, -3.4e38, 3.4e38))


# --- repacked types -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["Q4_0", "Q5_0", "Q8_0"])
def test_repacked_types_keep_their_values_bit_for_bit(dtype: str) -> None:
    tensor = any_blocks(dtype, 50, 256)
    got = to_int8_blocks(tensor.data, dtype).dequantize()
    expected = dequantize(tensor.data, dtype)
    np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("dtype", ["Q4_0", "Q5_0", "Q8_0"])
def test_repacked_types_need_no_zero_point_of_their_own(dtype: str) -> None:
    blocks = to_int8_blocks(any_blocks(dtype, 4, 64).data, dtype)
    assert np.all(blocks.zero_points == 128)
    assert is_exact(dtype)


def test_every_code_of_q8_0_survives() -> None:
    codes = np.arange(-128, 128, dtype=np.int8).reshape(8, 32)
    half = np.full((8, 1), 0.5, dtype=np.float16).view(np.uint8)
    rows = np.concatenate([half, codes.view(np.uint8)], axis=1)
    np.testing.assert_array_equal(to_int8_blocks(rows, "Q8_0").dequantize(), codes * 0.5)


# --- rounded types --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["Q4_1", "Q4_K", "Q6_K", "IQ4_NL", "MXFP4"])
def test_other_types_are_off_by_at_most_half_a_step(dtype: str) -> None:
    tensor = random_blocks(dtype, (8, 512))
    assert not is_exact(dtype)
    expected = dequantize(tensor.data, dtype)
    by_block = expected.reshape(8, -1, BLOCK_SIZE)
    span = np.maximum(by_block.max(-1), 0) - np.minimum(by_block.min(-1), 0)
    error = np.abs(to_int8_blocks(tensor.data, dtype).dequantize() - expected)
    assert np.all(error.reshape(by_block.shape) <= span[..., None] / 510 * 1.001)


@settings(max_examples=80, deadline=None)
@given(any_matrix)
def test_rounding_is_off_by_at_most_half_a_step(values: Floats) -> None:
    blocks = quantize_blocks(values)
    assert np.all(np.isfinite(blocks.scales))
    codes = blocks.codes.reshape(*blocks.scales.shape, BLOCK_SIZE).astype(np.float64)
    # In float64, so that only the choice of codes and scale is judged.
    exact = (codes - blocks.zero_points[..., None]) * blocks.scales[..., None]
    error = np.abs(exact - values.reshape(exact.shape))
    # A code is found by a float32 division: 255 times its rounding is far below 1/1000 of a step.
    assert np.all(error <= 0.501 * blocks.scales[..., None] + FLUSHED)


@settings(max_examples=80, deadline=None)
@given(any_matrix)
def test_the_step_is_a_255th_of_what_a_block_spans(values: Floats) -> None:
    by_block = values.reshape(values.shape[0], -1, BLOCK_SIZE).astype(np.float64)
    span = np.maximum(by_block.max(-1), 0) - np.minimum(by_block.min(-1), 0)
    scales = quantize_blocks(values).scales
    np.testing.assert_allclose(scales, span / 255, rtol=1e-6, atol=FLUSHED / 255)


@settings(max_examples=80, deadline=None)
@given(any_matrix)
def test_zero_stays_zero(values: Floats) -> None:
    """Pruned weights must not come back."""
    values[:, ::3] = 0
    assert np.all(quantize_blocks(values).dequantize()[:, ::3] == 0)


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 1e30, -1e30, 1e-30, 3.4e38, -3.4e38])
def test_a_constant_block_is_kept_to_rounding(value: float) -> None:
    values = np.full((1, 32), value, dtype=np.float32)
    np.testing.assert_allclose(quantize_blocks(values).dequantize(), values, rtol=3e-7)


def test_the_largest_values_of_both_signs_share_a_block() -> None:
    values = np.zeros((1, 32), dtype=np.float32)
    values[0, :2] = 3e38, -3e38
    np.testing.assert_allclose(quantize_blocks(values).dequantize(), values, atol=6e38 / 510 * 1.01)


@pytest.mark.parametrize("value", [1e-45, 1e-40, 1e-38, 2e-36])
def test_weights_too_small_for_a_step_become_zero(value: float) -> None:
    values = np.full((1, 32), value, dtype=np.float32)
    values[0, 0] = 0
    assert not quantize_blocks(values).dequantize().any()


def test_blocks_are_rounded_apart() -> None:
    values = np.concatenate([np.full((1, 32), 1e-3), np.full((1, 32), 1e3)], axis=1)
    got = quantize_blocks(values.astype(np.float32)).dequantize()
    np.testing.assert_allclose(got, values, rtol=1e-6)


@pytest.mark.parametrize(("columns", "whole"), [(32, True), (576, True), (48, False), (31, False)])
def test_rows_must_divide_into_blocks(columns: int, whole: bool) -> None:
    assert can_block(columns) is whole
