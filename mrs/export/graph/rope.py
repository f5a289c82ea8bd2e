"""Rotary tables, and the order of query and key rows that the graph's rotation expects."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from mrs.export.architectures.spec import RopeLayout, RopeSpec

_Doubles = NDArray[np.float64]
Wave = Callable[[_Doubles], _Doubles]

# Positions per chunk: bounds the float64 values of a chunk to a few megabytes.
_CHUNK_POSITIONS = 4096


def rope_frequencies(rope: RopeSpec, factors: NDArray[np.float32] | None) -> _Doubles:
    """Radians by which each pair turns from one position to the next, float64 ``[dims / 2]``.

    Args:
        rope: base, dims and linear scale.
        factors: divisors of the frequencies ``[dims / 2]``, or None.
    """
    frequencies = rope.base ** (-np.arange(0, rope.dims, 2, dtype=np.float64) / rope.dims)
    frequencies /= rope.scale
    return frequencies if factors is None else frequencies / factors


def rope_table(wave: Wave, frequencies: _Doubles, length: int) -> Iterator[NDArray[np.float32]]:
    """Cosines or sines for positions ``0 .. length-1``, float32 ``[some positions, dims / 2]``.

    Args:
        wave: `numpy.cos` or `numpy.sin`.
        frequencies: of the pairs, as `rope_frequencies` gives them.
        length: number of positions.
    """
    for start in range(0, length, _CHUNK_POSITIONS):
        stop = min(start + _CHUNK_POSITIONS, length)
        positions = np.arange(start, stop, dtype=np.float64)
        yield wave(np.outer(positions, frequencies)).astype(np.float32)


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
