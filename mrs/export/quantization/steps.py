"""The distance between neighbouring codes of a block, and what to multiply by to get codes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SMALLEST_STEP = np.finfo(np.float32).tiny
"""The reciprocal of a smaller one overflows."""


def reciprocals(steps: NDArray[np.float32]) -> NDArray[np.float32]:
    """``1 / steps``, and 0 where a step is below `SMALLEST_STEP` or NaN."""
    inverse: NDArray[np.float32] = np.divide(
        1, steps, out=np.zeros_like(steps), where=steps >= SMALLEST_STEP
    )
    return inverse
