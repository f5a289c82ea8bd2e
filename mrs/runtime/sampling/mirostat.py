"""Mirostat 2: draws whose surprise stays near a target (Basu et al., arXiv:2007.14966)."""

from __future__ import annotations

import numpy as np

from mrs.runtime.sampling.draw import draw, softmax
from mrs.runtime.sampling.filters import Candidates


class Mirostat:
    """The controller of one sequence.

    Args:
        target: surprise to hold, in bits (tau).
        rate: how fast the bound follows (eta).

    Attributes:
        bound: surprise, in bits, that no token exceeds (mu).
    """

    def __init__(self, target: float, rate: float) -> None:
        self._target = target
        self._rate = rate
        self.bound = 2 * target

    def draw(self, candidates: Candidates, uniform: float) -> int:
        """Draw from the tokens that surprise no more than the bound, and move the bound."""
        weights = softmax(candidates.logits)
        total = weights.sum(dtype=np.float64)
        floor = 2.0**-self.bound * total
        # The likeliest token is always there, however little it would surprise.
        kept = np.flatnonzero((weights >= floor) | (weights == weights.max()))
        chosen = int(kept[draw(weights[kept], uniform)])
        share = float(weights[chosen]) / float(weights[kept].sum(dtype=np.float64))
        self.bound -= self._rate * (-np.log2(share) - self._target)
        return candidates.token(chosen)
