from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mrs.export.quantization.int4_search import search_int4

# A cast of NaN or infinity to a code would only warn.
pytestmark = pytest.mark.filterwarnings("error")

Floats = NDArray[np.float32]


def normal(rows: int = 64, columns: int = 2048, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(0, 0.03, (rows, columns)).astype(np.float32)


def heavy_tailed() -> Floats:
    values = np.random.default_rng(0).standard_t(4, size=(256, 2048)) * 0.03
    return values.astype(np.float32)


def weights_of(values: Floats, importance: Floats | None = None) -> NDArray[np.float64]:
    """What an error counts, as the search defines it."""
    blocks = values.reshape(len(values), -1, 32).astype(np.float64)
    mean = (blocks**2).mean(axis=-1, keepdims=True)
    if importance is None:
        found = np.abs(blocks) + np.sqrt(mean)
    else:
        by_block = np.broadcast_to(importance, values.shape).reshape(blocks.shape)
        found = by_block * np.sqrt(2 * mean + blocks**2)
    weights: NDArray[np.float64] = found.reshape(values.shape)
    return weights


def relative_error(values: Floats, got: Floats, weights: NDArray[np.float64]) -> float:
    error = weights * (values.astype(np.float64) - got) ** 2
    return float(np.sqrt(error.sum() / (weights * values.astype(np.float64) ** 2).sum()))


def nearest(values: Floats, *, offsets: bool) -> Floats:
    """Round to nearest on the grid from the least to the largest of each block."""
    blocks = values.reshape(len(values), -1, 32).astype(np.float64)
    low, high = blocks.min(-1, keepdims=True), blocks.max(-1, keepdims=True)
    if not offsets:
        low, high = np.minimum(low, 0), np.maximum(high, 0)
    scale = np.where(high > low, (high - low) / 15, 1)
    if not offsets:
        low = np.rint(low / scale) * scale
    rounded = np.clip(np.rint((blocks - low) / scale), 0, 15) * scale + low
    found: Floats = rounded.reshape(values.shape).astype(np.float32)
    return found


# What llama.cpp's Q4_K leaves of these matrices: relative root mean square error, plain and by
# weights. From `benchmarks/int4_search.py`, which runs llama.cpp itself.
LLAMA_CPP_Q4_K = {"normal": (0.07129, 0.05856), "heavy-tailed": (0.08663, 0.05111)}


@pytest.mark.parametrize("name", LLAMA_CPP_Q4_K)
def test_the_search_is_nearer_to_the_weights_than_llama_cpp(name: str) -> None:
    values = normal(512) if name == "normal" else heavy_tailed()
    got = search_int4(values).dequantize()
    plain, weighted = LLAMA_CPP_Q4_K[name]
    assert relative_error(values, got, np.ones(values.shape)) < plain
    assert relative_error(values, got, weights_of(values)) < weighted


@pytest.mark.parametrize("offsets", [True, False])
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), exponent=st.floats(-30, 30), tail=st.floats(0.1, 3))
def test_the_search_is_never_worse_than_rounding(
    offsets: bool, seed: int, exponent: float, tail: float
) -> None:
    """Block by block, by the weights that it goes by."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(2, 64)) * np.exp(tail * rng.normal(size=(2, 64)))
    values = (values * 10.0**exponent + rng.normal() * 10.0**exponent).astype(np.float32)
    weights = weights_of(values)
    errors = [
        (weights * (values.astype(np.float64) - got) ** 2).reshape(2, -1, 32).sum(axis=-1)
        for got in (
            search_int4(values, offsets=offsets).dequantize(),
            nearest(values, offsets=offsets),
        )
    ]
    squares = (weights * values.astype(np.float64) ** 2).reshape(2, -1, 32).sum(axis=-1)
    assert np.all(errors[0] <= errors[1] * 1.0001 + 1e-10 * squares)


def test_importance_moves_the_error_to_where_it_counts_less() -> None:
    values = normal()
    importance = np.where(np.arange(2048) % 8 == 0, 20.0, 0.5).astype(np.float32)
    weights = weights_of(values, importance)
    plain, guided = search_int4(values), search_int4(values, importance)
    without, with_it = (relative_error(values, b.dequantize(), weights) for b in (plain, guided))
    assert with_it < 0.9 * without


def test_importance_may_differ_from_row_to_row() -> None:
    values = np.repeat(normal(1), 2, axis=0)
    importance = np.random.default_rng(1).uniform(0.1, 10, (2, 2048)).astype(np.float32)
    both = search_int4(values, importance).dequantize()
    for row in range(2):
        alone = search_int4(values[row : row + 1], importance[row]).dequantize()
        np.testing.assert_array_equal(both[row], alone[0])


@pytest.mark.parametrize("offsets", [True, False])
def test_a_block_is_quantized_alike_wherever_it_is(offsets: bool) -> None:
    values = normal(40, 1024)
    whole = search_int4(values, offsets=offsets).dequantize()
    for start, stop in ((0, 1), (3, 37), (39, 40)):
        part = search_int4(values[start:stop], offsets=offsets).dequantize()
        np.testing.assert_array_equal(part, whole[start:stop])


@pytest.mark.parametrize("power", [-60, -3, 5, 60])
def test_powers_of_two_scale_the_result(power: int) -> None:
    values = normal(4)
    scaled = search_int4(np.ldexp(values, power)).dequantize()
    np.testing.assert_array_equal(scaled, np.ldexp(search_int4(values).dequantize(), power))


@pytest.mark.parametrize("offsets", [True, False])
def test_zeros_stay_zeros(offsets: bool) -> None:
    assert not search_int4(np.zeros((2, 64), dtype=np.float32), offsets=offsets).dequantize().any()


def test_without_offsets_zero_is_a_level() -> None:
    values = normal(8)
    values[:, ::5] = 0
    blocks = search_int4(values, offsets=False)
    assert blocks.offsets is None
    assert not blocks.dequantize()[:, ::5].any()


@pytest.mark.parametrize("value", [1.0, -3.0, 1e-20, 3e38])
def test_a_constant_block_is_kept_to_rounding(value: float) -> None:
    values = np.full((1, 32), value, dtype=np.float32)
    np.testing.assert_allclose(search_int4(values).dequantize(), values, rtol=1e-6)


def test_sixteen_levels_are_kept_to_rounding() -> None:
    codes = np.tile(np.arange(16), (4, 4))
    values = (codes * 0.25 - 1.1).astype(np.float32)
    np.testing.assert_allclose(search_int4(values).dequantize(), values, rtol=0, atol=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("offsets", [True, False])
def test_a_block_that_is_not_finite_says_so_and_spoils_no_other(
    value: float, offsets: bool
) -> None:
    values = normal(2, 64)
    values[1, 40] = value
    blocks = search_int4(values, offsets=offsets)
    assert not blocks.is_finite()
    np.testing.assert_array_equal(np.isfinite(blocks.scales), [[True, True], [True, False]])
