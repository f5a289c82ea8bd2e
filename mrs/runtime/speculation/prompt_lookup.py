"""Guesses by prompt lookup: what followed the last time that the newest tokens came.

Saxena, "Prompt Lookup Decoding" (2023). It costs next to nothing, and is right where an answer
repeats its prompt or itself: code, summaries, quotations, lists.
"""

from __future__ import annotations

from collections.abc import Sequence as Collection
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from mrs.runtime.sequence import Sequence
from mrs.runtime.speculation.proposer import Wish

LONGEST = 4
"""Tokens that are compared: of the places where most of them agree, the newest counts."""
SHORTEST = 2


class PromptLookup:
    """A `mrs.runtime.speculation.proposer.Proposer` that looks back."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Sequence, _Tokens] = WeakKeyDictionary()

    def propose(self, wishes: Collection[Wish]) -> list[list[int]]:
        """Guesses for each wish."""
        return [continuation(self._tokens(wish.sequence), wish.most) for wish in wishes]

    def _tokens(self, sequence: Sequence) -> NDArray[np.int64]:
        known = self._known.get(sequence)
        if known is None:
            known = self._known[sequence] = _Tokens()
        return known.up_to(sequence)


def continuation(tokens: NDArray[np.int64], most: int) -> list[int]:
    """At most so many tokens that followed an earlier occurrence of the newest ones; often none.

    What is found may reach to the end, and then goes on with itself: of ``a b a b`` it is ``a b a
    b ...``.
    """
    places = np.flatnonzero(tokens[: len(tokens) - 1] == tokens[-1])
    found = places[:0]
    for size in range(2, min(LONGEST, len(tokens) - 1) + 1):
        places = places[places >= size - 1]
        places = places[tokens[places - (size - 1)] == tokens[-size]]
        if not len(places):
            break
        found = places if size >= SHORTEST else found
    if not len(found):
        return []
    start = int(found[-1]) + 1
    period = len(tokens) - start
    return [int(tokens[start + index % period]) for index in range(most)]


class _Tokens:
    """A sequence's tokens as an array that grows with it."""

    def __init__(self) -> None:
        self._buffer = np.empty(0, dtype=np.int64)
        self._count = 0

    def up_to(self, sequence: Sequence) -> NDArray[np.int64]:
        length = sequence.length
        if length > len(self._buffer):
            grown = np.empty(2 * length, dtype=np.int64)
            grown[: self._count] = self._buffer[: self._count]
            self._buffer = grown
        self._buffer[self._count : length] = sequence.tokens(self._count, length)
        self._count = length
        return self._buffer[:length]
