"""The tokens that may be drawn, and how likely they are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mrs.runtime.sampling.draw import mass
from mrs.runtime.sampling.peaks import Peaks, descending
from mrs.runtime.sampling.room import room

# Neither of these overflows, nor makes NaN of an infinite logit.
_SMALLEST_SCALE, _LARGEST_SCALE = 1e-30, 1e30


@dataclass(frozen=True)
class Candidates:
    """Tokens that may be drawn.

    As long as no filter has chosen, these are all tokens in the order of their ids; afterwards the
    chosen ones, the likeliest first. Logits are as they came: the temperature is part of `weights`
    alone, so that it costs nothing where they are not needed. The numbers of a whole vocabulary are
    kept until those of another one are asked for in the same thread.

    Attributes:
        logits: float32, not changed.
        largest: the largest logit of the vocabulary, which is finite.
        scale: by which logits are multiplied: one over the temperature.
        ids: the tokens that they belong to; None for all of the vocabulary.
        peaks: where large ones are; None where ``ids`` tells that.
    """

    logits: NDArray[np.float32]
    largest: float
    scale: np.float32
    ids: NDArray[np.int64] | None = None
    peaks: Peaks | None = None

    @classmethod
    def all_of(
        cls, logits: NDArray[np.float32], temperature: float = 1.0, peaks: Peaks | None = None
    ) -> Candidates:
        """The whole vocabulary.

        Args:
            logits: float32 ``[vocab]``.
            temperature: above 0.
            peaks: those of ``logits``, if they are known.
        """
        peaks = Peaks(logits) if peaks is None else peaks
        scale = min(max(1.0 / temperature, _SMALLEST_SCALE), _LARGEST_SCALE)
        return cls(logits, peaks.largest, np.float32(scale), peaks=peaks)

    @cached_property
    def scaled(self) -> NDArray[np.float32]:
        """Natural logarithms of `weights`: 0 for the likeliest token."""
        scaled = self._room("scaled")
        with np.errstate(over="ignore"):
            np.subtract(self.logits, np.float32(self.largest), out=scaled)
            if self.scale != 1:
                scaled *= self.scale
        return scaled

    @cached_property
    def weights(self) -> NDArray[np.float32]:
        """How likely the tokens are; 1 for the likeliest of the vocabulary."""
        return np.exp(self.scaled, out=self._room("weights"))

    @cached_property
    def total(self) -> float:
        """The sum of the weights."""
        return mass(self.weights)

    def keep(self, which: NDArray[np.int64] | slice) -> Candidates:
        """The candidates at these places, in this order."""
        if self.ids is not None:
            ids = self.ids[which]
        else:
            ids = np.arange(len(self.logits))[which] if isinstance(which, slice) else which
        kept = Candidates(self.logits[which], self.largest, self.scale, ids)
        for known in ("scaled", "weights"):
            if known in self.__dict__:
                kept.__dict__[known] = self.__dict__[known][which]
        return kept

    def weighed(
        self,
        ids: NDArray[np.int64],
        logits: NDArray[np.float32],
        weights: NDArray[np.float32],
    ) -> Candidates:
        """Some of the vocabulary, the likeliest first, whose weights are known already."""
        some = Candidates(logits, self.largest, self.scale, ids)
        some.__dict__["weights"] = weights
        return some

    def keep_at_least(self, floor: float) -> Candidates:
        """Those whose logits reach ``floor``, the likeliest first."""
        if self.peaks is None:
            return self.keep(slice(int((self.logits >= np.float64(floor)).sum())))
        return self.keep_sorted(self.peaks.at_least(floor))

    def keep_sorted(self, which: NDArray[np.int64]) -> Candidates:
        """The candidates at these places, which ascend, the likeliest first."""
        return self.keep(which[descending(self.logits[which])])

    def without(self, which: NDArray[np.int64]) -> Candidates:
        """The same, of which those at these places have no weight any more."""
        weights = self.weights.copy()
        weights[which] = 0
        rest = Candidates(self.logits, self.largest, self.scale, self.ids, self.peaks)
        rest.__dict__["weights"] = weights
        return rest

    def floor(self, weight: float) -> float:
        """The logit whose weight is ``weight``, or a little less: no more than that is rounding."""
        if weight <= 0:
            return -np.inf
        distance = -math.log(weight) / float(self.scale)
        return self.largest - distance * (1 + 1e-5) - 1e-5 / float(self.scale) - _ulp(self.largest)

    def places_of_weight(self, floor: float) -> NDArray[np.int64]:
        """The places of the candidates whose weights reach ``floor``, ascending."""
        if self.peaks is None:
            return np.flatnonzero(self.weights >= floor)
        places = self.peaks.at_least(self.floor(floor))
        return places[self.weights[places] >= floor]

    def _room(self, name: str) -> NDArray[np.float32]:
        """Room for as many numbers; for the whole vocabulary always the same in a thread."""
        return np.empty_like(self.logits) if self.ids is not None else room(name, len(self.logits))

    @property
    def tokens(self) -> NDArray[np.int64]:
        """The ids of all of them, in their order."""
        return np.arange(len(self.logits)) if self.ids is None else self.ids

    def token(self, place: int) -> int:
        """The token at a place."""
        return place if self.ids is None else int(self.ids[place])


def _ulp(number: float) -> float:
    """Of float32, or up to twice as much."""
    return abs(number) * 2.0**-23
