"""What is done to logits because of the tokens that were there before."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

_FIRST_CAPACITY = 64
# A repetition is looked at this far back: longer ones are punished as much, and cost no more.
LONGEST_MATCH = 50


class TokenCounts:
    """How often each token occurred, as arrays that grow with the number of distinct ones.

    Args:
        tokens: to begin with.
    """

    def __init__(self, tokens: NDArray[np.int64] | None = None) -> None:
        known = np.zeros(0, dtype=np.int64) if tokens is None else tokens
        ids, counts = np.unique(known, return_counts=True)
        room = np.zeros(_FIRST_CAPACITY, dtype=np.int64)
        self._places = {token: place for place, token in enumerate(ids.tolist())}
        self._ids = np.concatenate([ids, room])
        self._counts = np.concatenate([counts, room]).astype(np.float32)

    @property
    def ids(self) -> NDArray[np.int64]:
        """The distinct tokens."""
        return self._ids[: len(self._places)]

    @property
    def counts(self) -> NDArray[np.float32]:
        """How often each of `ids` occurred; 0 for one that has left the window."""
        return self._counts[: len(self._places)]

    def add(self, token: int, times: int = 1) -> None:
        """Count a token, or with ``times=-1`` forget one occurrence."""
        place = self._places.setdefault(token, len(self._places))
        if place == len(self._ids):
            self._ids = np.concatenate([self._ids, np.zeros_like(self._ids)])
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        self._ids[place] = token
        self._counts[place] += times


def penalize_frequency(
    logits: NDArray[np.float32], generated: TokenCounts, frequency: float, presence: float
) -> None:
    """Subtract ``frequency`` for each occurrence and ``presence`` once, in place (OpenAI)."""
    counts = generated.counts
    logits[generated.ids] -= frequency * counts + presence * (counts > 0)


def penalize_repetition(
    logits: NDArray[np.float32], tokens: NDArray[np.int64], penalty: float
) -> None:
    """Divide positive logits of ``tokens`` by ``penalty``, multiply negative ones; in place.

    Source: Keskar et al., CTRL, arXiv:1909.05858.
    """
    seen = logits[tokens]
    logits[tokens] = np.where(seen > 0, seen / penalty, seen * penalty)


def dry_penalties(
    tokens: NDArray[np.int64], limit: int, *, multiplier: float, base: float, allowed_length: int
) -> Mapping[int, float]:
    """What to subtract from the logits of tokens that would prolong a repetition (DRY).

    A token that followed an earlier occurrence of the text's last ``n`` tokens is penalized with
    ``multiplier * base ** (n - allowed_length)`` where ``n`` reaches ``allowed_length``.

    Args:
        tokens: prompt and answer so far.
        limit: tokens at the end since the last sequence breaker; no match is longer.
        multiplier: size of the penalties.
        base: growth of them.
        allowed_length: repetitions below it are not penalized.

    Source: p-e-w, "DRY", text-generation-webui, pull request 5677.
    """
    limit = min(limit, LONGEST_MATCH)
    if limit < allowed_length or len(tokens) < 2:
        return {}
    longest: dict[int, int] = {}
    matching = np.flatnonzero(tokens[:-1] == tokens[-1])
    for length in range(1, limit + 1):
        if not len(matching):
            break
        if length >= allowed_length:
            longest.update(dict.fromkeys(tokens[matching + 1].tolist(), length))
        # Those whose next earlier token matches as well.
        matching = matching[matching >= length]
        matching = matching[tokens[matching - length] == tokens[-1 - length]]
    return {token: multiplier * base ** (n - allowed_length) for token, n in longest.items()}
