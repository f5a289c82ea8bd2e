"""Mirostat 2: draws whose surprise stays near a target (Basu et al., arXiv:2007.14966)."""

from __future__ import annotations

import math

from mrs.runtime.sampling.candidates import Candidates
from mrs.runtime.sampling.draw import draw, mass


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
        # The likeliest token is always there, however little it would surprise.
        floor = min(1.0, 2.0**-self.bound * candidates.total)
        kept = candidates.places_of_weight(floor)
        weights = candidates.weights[kept]
        chosen = draw(weights, uniform)
        share = float(weights[chosen]) / mass(weights)
        self.bound -= self._rate * (-math.log2(share) - self._target)
        return candidates.token(int(kept[chosen]))
