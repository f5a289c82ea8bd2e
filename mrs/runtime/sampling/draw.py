"""One token out of weights, by one uniform number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Mass is summed in blocks of this many tokens, then inside one block: a draw reads the vocabulary
# once. A block's own sum is exact enough in float32; those of blocks are added in float64.
_BLOCK = 256


def block_masses(weights: NDArray[np.float32]) -> NDArray[np.float64]:
    """The sums of the weights, `_BLOCK` by `_BLOCK`."""
    whole = len(weights) // _BLOCK * _BLOCK
    # Several times faster than a sum along an axis, which cannot use the whole register.
    blocks = weights[:whole].reshape(-1, _BLOCK)
    sums: NDArray[np.float64] = np.einsum("ij->i", blocks).astype(np.float64)
    if whole == len(weights):
        return sums
    return np.append(sums, weights[whole:].sum(dtype=np.float64))


def mass(weights: NDArray[np.float32]) -> float:
    """The sum of the weights."""
    if len(weights) <= _BLOCK:
        return float(weights.sum(dtype=np.float64))
    return float(block_masses(weights).sum())


def draw(weights: NDArray[np.float32], uniform: float) -> int:
    """The index at which the running sum of ``weights`` passes the share ``uniform`` of it all."""
    if len(weights) <= _BLOCK:
        running = np.cumsum(weights, dtype=np.float64)
        return passing(running, uniform * running[-1])
    block_mass = np.cumsum(block_masses(weights))
    target = uniform * block_mass[-1]
    block = passing(block_mass, target)
    before = block_mass[block - 1] if block else 0.0
    first = block * _BLOCK
    running = np.cumsum(weights[first : first + _BLOCK], dtype=np.float64)
    return first + passing(running, target - before)


def passing(running: NDArray[np.float64], target: float) -> int:
    """The first place at which a running sum is above ``target``.

    Rounding may leave the target a hair beyond the sum; then the last place that adds to it is
    meant.
    """
    place = int(running.searchsorted(target, side="right"))
    return place if place < len(running) else int(running.searchsorted(running[-1]))
