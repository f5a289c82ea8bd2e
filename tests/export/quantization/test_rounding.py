from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from mrs.export.quantization.rounding import round_to_int8

# A cast of NaN or infinity to a code would only warn.
pytestmark = pytest.mark.filterwarnings("error")

Floats = NDArray[np.float32]
FLUSHED = 3e-36  # Blocks that span less become zeros.

any_matrix = arrays(
    np.float32,
    st.tuples(st.integers(1, 3), st.sampled_from([32, 64])),
    elements=st.one_of(st.floats(-2, 2, width=32), st.floats(width=32, allow_nan=False)),
).map(lambda values: np.clip(values, -3.38e38, 3.38e38))
sizes = st.sampled_from([16, 32])


def spans(values: Floats, size: int) -> NDArray[np.float64]:
    blocks = values.reshape(values.shape[0], -1, size).astype(np.float64)
    found: NDArray[np.float64] = np.maximum(blocks.max(-1), 0) - np.minimum(blocks.min(-1), 0)
    return found


@settings(max_examples=80, deadline=None)
@given(any_matrix, sizes)
def test_rounding_is_off_by_at_most_half_a_step(values: Floats, size: int) -> None:
    blocks = round_to_int8(values, size)
    assert blocks.is_finite()
    codes = blocks.codes.astype(np.float64)
    # In float64, so that only the choice of codes and scale is judged.
    exact = (codes - blocks.zero_points[..., None]) * blocks.scales[..., None]
    error = np.abs(exact - values.reshape(exact.shape))
    # A code is found by a float32 division: 255 times its rounding is far below 1/1000 of a step.
    assert np.all(error <= 0.501 * blocks.scales[..., None] + FLUSHED)


@settings(max_examples=80, deadline=None)
@given(any_matrix, sizes)
def test_the_step_is_a_255th_of_what_a_block_spans(values: Floats, size: int) -> None:
    scales = round_to_int8(values, size).scales
    np.testing.assert_allclose(scales, spans(values, size) / 255, rtol=1e-6, atol=FLUSHED / 255)


@settings(max_examples=80, deadline=None)
@given(any_matrix, sizes)
def test_zero_stays_zero(values: Floats, size: int) -> None:
    """Pruned weights must not come back."""
    values[:, ::3] = 0
    assert np.all(round_to_int8(values, size).dequantize()[:, ::3] == 0)


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 1e30, -1e30, 1e-30, 3.4e38, -3.4e38])
def test_a_constant_block_is_kept_to_rounding(value: float) -> None:
    values = np.full((1, 32), value, dtype=np.float32)
    np.testing.assert_allclose(round_to_int8(values, 32).dequantize(), values, rtol=3e-7)


def test_the_largest_values_of_both_signs_share_a_block() -> None:
    values = np.zeros((1, 32), dtype=np.float32)
    values[0, :2] = 3e38, -3e38
    got = round_to_int8(values, 32).dequantize()
    np.testing.assert_allclose(got, values, atol=6e38 / 510 * 1.01)


@pytest.mark.parametrize("value", [1e-45, 1e-40, 1e-38, 2e-36])
def test_weights_too_small_for_a_step_become_zero(value: float) -> None:
    values = np.full((1, 32), value, dtype=np.float32)
    values[0, 0] = 0
    assert not round_to_int8(values, 32).dequantize().any()


def test_blocks_are_rounded_apart() -> None:
    values = np.concatenate([np.full((1, 32), 1e-3), np.full((1, 32), 1e3)], axis=1)
    got = round_to_int8(values.astype(np.float32), 32).dequantize()
    np.testing.assert_allclose(got, values, rtol=1e-6)
