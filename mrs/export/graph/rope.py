"""Rotary tables, and the order of query and key rows that the graph's rotation expects."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mrs.export.architectures.spec import RopeLayout, RopeSpec


def rope_tables(
    rope: RopeSpec, length: int, factors: NDArray[np.float32] | None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Cosines and sines for positions ``0 .. length-1``, each float32 ``[length, dims / 2]``.

    Args:
        rope: base, dims and linear scale.
        length: number of positions.
        factors: divisors of the frequencies ``[dims / 2]``, or None.
    """
    frequencies = rope.base ** (-np.arange(0, rope.dims, 2, dtype=np.float64) / rope.dims)
    if factors is not None:
        frequencies = frequencies / factors
    angles = np.outer(np.arange(length, dtype=np.float64) / rope.scale, frequencies)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def head_row_order(
    layout: RopeLayout, heads: int, head_dim: int, rotated: int
) -> NDArray[np.int64] | None:
    """For each row of a projection in ``HALVES`` order, the checkpoint's row; None if equal.

    Only the first ``rotated`` rows of each head move.
    """
    if layout is RopeLayout.HALVES:
        return None
    head = np.arange(head_dim)
    head[:rotated] = np.arange(rotated).reshape(rotated // 2, 2).T.reshape(-1)
    return (np.arange(heads)[:, None] * head_dim + head).reshape(-1)
