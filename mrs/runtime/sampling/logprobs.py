"""How likely the model found the token that was drawn, and others beside it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mrs.runtime.generation import TokenLogprobs
from mrs.runtime.sampling.candidates import Candidates


class RawLogprobs:
    """Natural logarithms of the model's own distribution, before penalties, bias and temperature.

    Args:
        logits: float32 ``[vocab]``.
        alternatives: how many of the likeliest tokens are told.
        keep: the logits may change before `of` is asked, and are copied.
    """

    def __init__(
        self, logits: NDArray[np.float32], alternatives: int, *, keep: bool = True
    ) -> None:
        self.candidates = Candidates.all_of(logits)
        self._normalizer = self.candidates.largest + math.log(self.candidates.total)
        self._top: tuple[tuple[int, float], ...] = ()
        if alternatives and self.candidates.peaks is not None:
            likeliest = self.candidates.peaks.top(min(alternatives, len(logits)))
            values = logits[likeliest].tolist()
            self._top = tuple(zip(likeliest.tolist(), map(self._logprob, values), strict=True))
        self._logits = logits.copy() if keep else logits

    def of(self, token: int) -> TokenLogprobs:
        """Of the token that was drawn, and of the likeliest ones, in descending order."""
        return TokenLogprobs(token, self._logprob(float(self._logits[token])), self._top)

    def _logprob(self, logit: float) -> float:
        return min(0.0, logit - self._normalizer)
