"""Turning groups of neighbouring columns by a Hadamard matrix, so that no column stands out.

Rounding to int8 with one scale for a whole row fails where a few columns are far larger than the
rest: these set the step, and the others have few of them left. A Hadamard matrix spreads each
column of a group evenly over all columns of it. Activations and weights are turned alike, and as
``H @ H.T`` is the identity times the size, products stay what they were.

Source: QuaRot (Ashkboos et al., 2024, https://arxiv.org/abs/2404.00456), which turns whole rows;
groups cost a fraction of that while a model runs, and suffice at 8 bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Measured on SmolLM2: smaller groups are less exact, and larger ones take longer to turn.
LARGEST_GROUP = 64


def group_size(columns: int) -> int:
    """The largest power of two that divides ``columns``, at most `LARGEST_GROUP`."""
    return min(columns & -columns, LARGEST_GROUP)


def hadamard(size: int) -> NDArray[np.float32]:
    """Sylvester's matrix of 1 and -1, symmetric; ``hadamard(n) @ hadamard(n)`` is ``n`` times one.

    Args:
        size: a power of two.
    """
    found = np.ones((1, 1), dtype=np.float32)
    while len(found) < size:
        found = np.block([[found, found], [found, -found]])
    return found


def turned_weights(weights: NDArray[np.float32], size: int) -> NDArray[np.float32]:
    """Weights for activations whose groups were multiplied by ``hadamard(size)``.

    Args:
        weights: ``[rows, columns]``.
        size: of a group; divides the columns.

    Returns:
        ``v`` with ``(x @ H) @ v.T == x @ weights.T``, group by group.
    """
    # Dividing by a power of two is exact.
    matrix = hadamard(size) / np.float32(size)
    return (weights.reshape(len(weights), -1, size) @ matrix).reshape(weights.shape)
