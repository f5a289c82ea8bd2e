"""Activations that 8-bit blocks hold without rounding, so that only the weights can be wrong."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

BLOCK = 32
LARGEST = 127  # An int8 block is scaled by its largest magnitude over 127: here by exactly 1.


def exact_in_int8(rows: int, columns: int, seed: int = 0, block: int = BLOCK) -> Floats:
    """Random integers -127 to 127 with a magnitude of 127 in each block of columns.

    Each block adds up to -127, 0 or 127, so that blocks of block sums are exact as well.
    """
    rng = np.random.default_rng(seed)
    sums = rng.choice([-LARGEST, 0, LARGEST], (rows, columns // block))
    halves = rng.integers(0, LARGEST, (rows, columns // block, block // 2), endpoint=True)
    blocks = np.concatenate([halves, -halves], axis=-1)
    blocks[..., 0] = LARGEST
    blocks[..., block // 2] = sums - LARGEST
    # ``sums - 127`` is -254 where a sum is -127: there the first pair is -127 and 0 instead.
    negative = sums == -LARGEST
    blocks[negative, 0], blocks[negative, block // 2] = -LARGEST, 0
    return rng.permuted(blocks, axis=-1).reshape(rows, columns).astype(np.float32)


def near_int8(shape: tuple[int, ...], seed: int = 0) -> Floats:
    """Normal activations: an int8 block rounds each by at most 1/254 of the block's largest."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)
