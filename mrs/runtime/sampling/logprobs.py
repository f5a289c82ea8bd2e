"""How likely the model found the token that was drawn, and others beside it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mrs.runtime.generation import TokenLogprobs
from mrs.runtime.sampling.filters import top_k


class RawLogprobs:
    """Natural logarithms of the model's own distribution, before penalties, bias and temperature.

    Args:
        logits: float32 ``[vocab]``; copied, since sampling changes them.
        alternatives: how many of the likeliest tokens are told.
    """

    def __init__(self, logits: NDArray[np.float32], alternatives: int) -> None:
        self._logits = logits.copy()
        self._alternatives = min(alternatives, len(logits))
        largest = float(logits.max())
        mass = np.exp(logits - np.float32(largest)).sum(dtype=np.float64)
        self._normalizer = largest + float(np.log(mass))

    def of(self, token: int) -> TokenLogprobs:
        """Of the token that was drawn, and of the likeliest ones, in descending order."""
        likeliest: list[int] = []
        if self._alternatives:
            likeliest = top_k(self._logits, self._alternatives).tolist()
        top = tuple((other, self._logprob(other)) for other in likeliest)
        return TokenLogprobs(token, self._logprob(token), top)

    def _logprob(self, token: int) -> float:
        return min(0.0, float(self._logits[token]) - self._normalizer)
