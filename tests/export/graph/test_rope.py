"""Rotary tables against their formula, and row orders against llama.cpp's converter."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mrs.export.architectures.spec import FactorsScaling, LinearScaling, RopeLayout, RopeSpec
from mrs.export.graph.rope import (
    Wave,
    head_row_order,
    rope_frequencies,
    rope_table,
    rotated_with_padding,
)


def whole_table(wave: Wave, rope: RopeSpec, length: int) -> NDArray[np.float32]:
    return np.concatenate(list(rope_table(wave, rope_frequencies(rope, length), length)))


@pytest.mark.parametrize("position", [0, 1, 63, 4095, 4096, 8191])
@pytest.mark.parametrize("pair", [0, 1, 16, 31])
@pytest.mark.parametrize(("base", "scale"), [(10000.0, 1.0), (500000.0, 4.0)])
def test_tables_hold_the_formula_to_float32(
    base: float, scale: float, pair: int, position: int
) -> None:
    rope = RopeSpec(base, 64, RopeLayout.HALVES, LinearScaling(scale))
    angle = position / scale * base ** (-2 * pair / 64)
    cosine, sine = (whole_table(wave, rope, 8192)[position, pair] for wave in (np.cos, np.sin))
    # Rounding to float32, and an angle whose float64 rounding is at most 8192 * 2**-52.
    assert math.isclose(cosine, math.cos(angle), rel_tol=2**-24, abs_tol=1e-11)
    assert math.isclose(sine, math.sin(angle), rel_tol=2**-24, abs_tol=1e-11)


@pytest.mark.parametrize("length", [1, 4095, 4096, 4097])
def test_tables_have_a_row_for_every_position(length: int) -> None:
    rope = RopeSpec(10000.0, 16, RopeLayout.HALVES)
    assert whole_table(np.cos, rope, length).shape == (length, 8)


def test_tables_come_a_few_megabytes_at_a_time() -> None:
    """A header may ask for four million positions."""
    chunks = rope_table(
        np.cos, rope_frequencies(RopeSpec(1e4, 128, RopeLayout.HALVES), 1 << 22), 1 << 22
    )
    assert next(chunks).nbytes <= 1 << 21


def test_factors_divide_frequencies() -> None:
    factors = (2.0, 8.0)
    rope = RopeSpec(10000.0, 4, RopeLayout.HALVES, FactorsScaling(values=factors))
    expected = [1 / 2, 10000.0**-0.5 / 8]
    found = rope_frequencies(rope, 16, np.array(factors))
    np.testing.assert_allclose(found, expected, rtol=1e-15)


# --- the order of rows ----------------------------------------------------------------------------


def as_llama_cpp_stores(rows: NDArray[np.int64], heads: int) -> NDArray[np.int64]:
    """The permutation of its converter: the halves of each head are interleaved."""
    return rows.reshape(heads, 2, len(rows) // heads // 2).swapaxes(1, 2).reshape(-1)


@settings(max_examples=80, deadline=None)
@given(heads=st.integers(1, 40), eighths=st.integers(1, 8))
def test_row_order_undoes_the_interleaving(heads: int, eighths: int) -> None:
    half = 8 * eighths
    rows = np.arange(heads * half * 2)
    order = head_row_order(RopeLayout.PAIRS, heads, 2 * half, 2 * half)
    assert order is not None
    np.testing.assert_array_equal(as_llama_cpp_stores(rows, heads)[order], rows)


@settings(max_examples=80, deadline=None)
@given(heads=st.integers(1, 8), head_dim=st.integers(16, 64), data=st.data())
def test_row_order_pairs_what_the_layout_pairs(
    heads: int, head_dim: int, data: st.DataObject
) -> None:
    layout = data.draw(st.sampled_from(RopeLayout))
    rotated = 2 * data.draw(st.integers(1, head_dim // 16 * 8))
    order = head_row_order(layout, heads, head_dim, rotated)
    if order is None:
        order = np.arange(heads * head_dim)
    by_head = order.reshape(heads, head_dim) - np.arange(heads)[:, None] * head_dim
    np.testing.assert_array_equal(np.sort(by_head), np.tile(np.arange(head_dim), (heads, 1)))
    half = rotated_with_padding(rotated) // 2
    pairs = np.arange(rotated).reshape(2, -1).T
    if layout is RopeLayout.PAIRS:
        pairs = np.arange(rotated).reshape(-1, 2)
    for head in by_head:
        found = np.stack([head[: rotated // 2], head[half : half + rotated // 2]], axis=1)
        np.testing.assert_array_equal(found, pairs)


def test_rows_in_halves_stay_where_they_are() -> None:
    assert head_row_order(RopeLayout.HALVES, 4, 16, 16) is None
