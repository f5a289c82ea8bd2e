"""One token out of weights, by one uniform number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Mass is summed in blocks of this many tokens, then inside one block: a draw reads the vocabulary
# once, and the sums stay exact enough in float32.
_BLOCK = 256


def softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Unnormalised: the largest weight is 1."""
    weights: NDArray[np.float32] = np.exp(logits - logits.max())
    return weights


def draw(weights: NDArray[np.float32], uniform: float) -> int:
    """The index at which the running sum of ``weights`` passes the share ``uniform`` of it all."""
    blocks = np.add.reduceat(weights, np.arange(0, len(weights), _BLOCK), dtype=np.float64)
    block_mass = np.cumsum(blocks)
    target = uniform * block_mass[-1]
    block = min(int(np.searchsorted(block_mass, target, side="right")), len(blocks) - 1)
    before = block_mass[block - 1] if block else 0.0
    inside = np.cumsum(weights[block * _BLOCK : (block + 1) * _BLOCK], dtype=np.float64)
    # Rounding may leave the target a hair beyond the block; then its last likely token is meant.
    offset = int(np.searchsorted(inside, target - before, side="right"))
    if offset >= len(inside):
        offset = int(np.flatnonzero(weights[block * _BLOCK : (block + 1) * _BLOCK])[-1])
    return block * _BLOCK + offset
