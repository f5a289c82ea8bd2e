"""Rows of the KV cache that outlive their sequences, to be the beginning of other ones.

Pure bookkeeping: which slot holds which tokens. A row is kept until its slot or its memory is
needed; the one used last goes last. A hit is never wrong: tokens and salt are compared, not hashed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SHORTEST_MATCH = 16
"""Shorter beginnings are computed as fast as they are copied."""


@dataclass
class KeptRow:
    """A finished sequence's tokens, whose keys and values are in its slot.

    Attributes:
        tokens: int64, those that are in the cache.
        salt: only requests with the same salt may share it.
        used: when it was used last; larger is later.
    """

    tokens: NDArray[np.int64]
    salt: str
    used: int


@dataclass(frozen=True)
class Match:
    """The beginning of a prompt that some row of the cache holds already.

    Attributes:
        slot: where.
        length: tokens.
    """

    slot: int
    length: int


class PrefixCache:
    """The rows that are kept.

    Args:
        max_bytes: memory of all of them together; 0 keeps none.
        row_bytes: memory that a row of so many tokens takes.
        can_reuse: whether a row of so many tokens can be cut to so many.
    """

    def __init__(
        self,
        max_bytes: int,
        row_bytes: Callable[[int], int],
        can_reuse: Callable[[int, int], bool],
    ) -> None:
        self._max_bytes = max_bytes
        self._row_bytes = row_bytes
        self._can_reuse = can_reuse
        self._rows: dict[int, KeptRow] = {}
        self._clock = itertools.count()

    def __contains__(self, slot: object) -> bool:
        return slot in self._rows

    def __getitem__(self, slot: int) -> KeptRow:
        return self._rows[slot]

    @property
    def enabled(self) -> bool:
        """Rows are kept at all."""
        return self._max_bytes > 0

    @property
    def slots(self) -> frozenset[int]:
        """Where rows are kept."""
        return frozenset(self._rows)

    @property
    def tokens(self) -> int:
        """Tokens of all rows."""
        return sum(len(row.tokens) for row in self._rows.values())

    @property
    def bytes(self) -> int:
        """Memory of all rows."""
        return sum(self._row_bytes(len(row.tokens)) for row in self._rows.values())

    def keep(self, slot: int, tokens: list[int], salt: str) -> bool:
        """Keep a slot's row, if it is long enough to be of use and short enough to be kept."""
        if len(tokens) < SHORTEST_MATCH or self._row_bytes(len(tokens)) > self._max_bytes:
            return False
        kept = np.array(tokens, dtype=np.int64)
        self._rows[slot] = KeptRow(kept, salt, next(self._clock))
        return True

    def drop_beginnings(self, slot: int) -> Iterator[int]:
        """Drop rows that are no more than the beginning of this one; gives their slots.

        Not those that it cannot be cut to.
        """
        whole = self._rows[slot]
        for other, row in list(self._rows.items()):
            same = other != slot and row.salt == whole.salt
            length = len(row.tokens)
            if (
                same
                and common_prefix(row.tokens, whole.tokens) == length
                and self._can_reuse(len(whole.tokens), length)
            ):
                del self._rows[other]
                yield other

    def drop_beyond_budget(self) -> Iterator[int]:
        """Drop rows until the others fit; gives the slots that they were in."""
        while self.bytes > self._max_bytes:
            yield self.drop_oldest()

    def drop_oldest(self) -> int:
        """Drop the row that was used longest ago; gives its slot."""
        slot = min(self._rows, key=lambda slot: self._rows[slot].used)
        del self._rows[slot]
        return slot

    def oldest_but(self, spared: int) -> int | None:
        """Slot of the row that was used longest ago, but for one; None if there is no other."""
        others = (slot for slot in self._rows if slot != spared)
        return min(others, key=lambda slot: self._rows[slot].used, default=None)

    def drop(self, slot: int) -> None:
        """Drop the row in a slot."""
        del self._rows[slot]

    def move(self, source: int, target: int) -> None:
        """A row is in another slot now."""
        self._rows[target] = self._rows.pop(source)

    def match(self, prompt: NDArray[np.int64], salt: str) -> Match | None:
        """The row that shares the longest beginning with a prompt, if that is worth anything."""
        best: Match | None = None
        for slot, row in self._rows.items():
            if row.salt != salt:
                continue
            length = common_prefix(row.tokens, prompt)
            if length < SHORTEST_MATCH or not self._can_reuse(len(row.tokens), length):
                continue
            if best is None or length > best.length:
                best = Match(slot, length)
        return best

    def touch(self, slot: int) -> None:
        """A row was used."""
        self._rows[slot].used = next(self._clock)


def common_prefix(left: NDArray[np.int64], right: NDArray[np.int64]) -> int:
    """How many tokens two sequences have in common at their beginning."""
    size = min(len(left), len(right))
    differs = np.flatnonzero(left[:size] != right[:size])
    return int(differs[0]) if len(differs) else size
