"""Draws from a whole vocabulary without weighing all of it.

Rejection sampling (von Neumann, "Various techniques used in connection with random digits", 1951).
The likeliest tokens, the head, are weighed one by one. Over all others lies an envelope: in a
column of the grid of `Peaks` none weighs more than the column's largest. A place is drawn under
head and envelope; where it is above the weight of its token, it is drawn anew. The tokens that come
out are distributed as if each had been weighed.

Whether a token belongs to the nucleus is asked only of the one that was drawn. The mass of what is
likelier is that of the head down to it, and bounds of the mass of everything nearly always tell the
answer; else everything is weighed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mrs.runtime.sampling.candidates import Candidates
from mrs.runtime.sampling.draw import draw, passing
from mrs.runtime.sampling.filters import keep_min_p, keep_nucleus
from mrs.runtime.sampling.heads import Head

# How light the head's lightest token may be beside the likeliest: the first that few columns reach.
_FLOORS = (1e-3, 1e-2)
# So many in a row come to nothing where an envelope is much too wide.
_MOST_PROPOSALS = 50


def whole_floors(candidates: Candidates) -> Iterator[float]:
    """Floors of the head that `draw_whole` is given, the best first."""
    return (candidates.floor(weight) for weight in _FLOORS)


def draw_whole(
    candidates: Candidates, head: Head, top_p: float, min_p: float, uniform: Callable[[], float]
) -> int:
    """A token of a whole vocabulary, inside its nucleus and not below ``min_p``.

    Args:
        candidates: all tokens.
        head: the likeliest of them.
        top_p: as of `keep_nucleus`.
        min_p: as of `keep_min_p`.
        uniform: gives the next random number in [0, 1).
    """
    with np.errstate(over="ignore"):
        envelope = _Envelope(candidates, head)
        nucleus = _Nucleus(candidates, envelope, top_p, min_p)
        for _ in range(_MOST_PROPOSALS):
            target = uniform() * nucleus.reach
            drawn = envelope.drawn_at(target)
            if drawn is not None and nucleus.holds(drawn):
                return drawn.token
    kept = keep_min_p(nucleus.kept, min_p)
    return kept.token(draw(kept.weights, uniform()))


@dataclass(frozen=True)
class _Drawn:
    """A token that came out, and what all likelier ones weigh; None outside of the head."""

    token: int
    before: float | None


class _Envelope:
    """The head of a vocabulary, and what lies over the rest.

    Attributes:
        running: running sums of the weights of the head.
        head: the sum of them.
        rest: what all other tokens weigh, at most.
    """

    def __init__(self, candidates: Candidates, head: Head) -> None:
        assert candidates.peaks is not None, "a head is found by peaks"
        self._logits, self._peaks, self._floor = candidates.logits, candidates.peaks, head.floor
        self._largest, self._scale = np.float32(candidates.largest), candidates.scale
        self._tokens = head.tokens
        self.running = np.cumsum(head.tokens.weights, dtype=np.float64)
        self.head = float(self.running[-1])
        # What no token of a column weighs more than, outside of the head.
        self._columns = self._weights_of(np.minimum(self._peaks.columns, np.float32(head.floor)))
        self.rest = float(self._columns.sum()) * self._peaks.cells

    def drawn_at(self, target: float) -> _Drawn | None:
        """The token at a place; None if the place is above what its token weighs."""
        if target < self.head:
            place = passing(self.running, target)
            return _Drawn(self._tokens.token(place), _sum_before(self.running, place))
        running = self._running_columns
        inside = (target - self.head) / self.rest * float(running[-1])
        column = passing(running, inside)
        bound = float(self._columns[column])
        share = (inside - _sum_before(running, column)) / bound
        # Which cell of the column, and how high in it.
        cell, height = divmod(share * self._peaks.cells, 1.0)
        token = self._peaks.place(column, int(cell))
        if token is None or float(self._logits[token]) >= self._floor:
            return None  # There is none, or it is one of the head.
        return _Drawn(token, None) if height * bound < self.weight(token) else None

    @cached_property
    def _running_columns(self) -> NDArray[np.float64]:
        return np.cumsum(self._columns, dtype=np.float64)

    def weight(self, token: int) -> float:
        """What a token weighs."""
        return float(self._weights_of(self._logits[token]))

    def _weights_of(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        weights: NDArray[np.float32] = np.exp((logits - self._largest) * self._scale)
        return weights


class _Nucleus:
    """Which tokens may be drawn; tells it of one token at the least price.

    Attributes:
        reach: places from here on are outside.
    """

    def __init__(
        self, candidates: Candidates, envelope: _Envelope, top_p: float, min_p: float
    ) -> None:
        self._candidates, self._envelope = candidates, envelope
        self._top_p, self._min_p = top_p, min_p
        whole = envelope.head + envelope.rest
        self._inside = math.inf if top_p >= 1 else top_p * envelope.head
        outside = math.inf if top_p >= 1 else top_p * whole
        self.reach = whole if outside > envelope.head else self._until(outside)

    def _until(self, outside: float) -> float:
        """The end of the last token that not so much mass is likelier than."""
        running = self._envelope.running
        return float(running[min(int(running.searchsorted(outside)), len(running) - 1)])

    def holds(self, drawn: _Drawn) -> bool:
        """Whether a token that came out may be drawn."""
        if self._min_p and self._envelope.weight(drawn.token) < self._min_p:
            return False
        if drawn.before is None:
            return self._top_p >= 1 or drawn.token in self.kept.tokens
        return drawn.before < self._inside or drawn.before < self._top_p * self._candidates.total

    @cached_property
    def kept(self) -> Candidates:
        """All of it, which takes weighing all tokens."""
        return keep_nucleus(self._candidates, self._top_p)


def _sum_before(running: NDArray[np.float64], place: int) -> float:
    return float(running[place - 1]) if place else 0.0
