"""Logits of many shapes: flat, peaked, tied, banned, huge."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

# Below, at and above the size from which rows are looked at by their peaks, and with a tail.
SIZES = st.sampled_from([1, 2, 40, 999, 16_384, 16_400, 20_001])


@st.composite
def rows(draw: st.DrawFn) -> NDArray[np.float32]:
    """Float32 ``[vocab]``, the largest of which is finite."""
    size = draw(SIZES)
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    values = random.standard_normal(size) * draw(st.sampled_from([0.0, 0.1, 1.0, 4.0, 30.0]))
    if draw(st.booleans()):  # Ties, zeros of both signs among them.
        values = np.round(values)
    if draw(st.booleans()):
        values *= draw(st.sampled_from([1.0, -1.0, 1e3, 1e30]))
    values += draw(st.sampled_from([0.0, 0.0, 25.0, -40.0, 1e4]))
    if draw(st.booleans()):
        values[random.random(size) < draw(st.sampled_from([0.1, 0.99]))] = -np.inf
    if not np.isfinite(values).any():
        values[random.integers(size)] = draw(st.sampled_from([0.0, -1e30, 1e30]))
    return values.astype(np.float32)
