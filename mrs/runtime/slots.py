"""Who is in which slot of the KV cache, how much memory that takes, and what ended sequences leave.

Running sequences sit in the lowest slots, so that a batch is always a run of neighbouring slots.
Behind the slots that they may have, there may be more for what ended sequences leave.
Whatever changes in the cache because of a decision is noted, in order, as `CacheOperation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import numpy as np

from mrs.runtime.cache_operations import CacheOperation, Copy, Move, Release, Trim
from mrs.runtime.prefix_cache import SHORTEST_MATCH, Match, PrefixCache, common_prefix
from mrs.runtime.sequence import Sequence


class Slots:
    """The slots of a cache.

    Args:
        count: how many sequences may have.
        spare: more, for rows of ended sequences alone.
        budget: most bytes of all rows together; None for any.
        max_kept: most bytes of rows whose sequences have ended; 0 for none.
        row_bytes: memory that a row of so many tokens takes.
        can_reuse: whether a row of so many tokens can be cut to so many: not always, where layers
            have a window.
    """

    def __init__(
        self,
        count: int,
        spare: int,
        budget: int | None,
        max_kept: int,
        row_bytes: Callable[[int], int],
        can_reuse: Callable[[int, int], bool],
    ) -> None:
        self._slots: list[Sequence | None] = [None] * (count + spare)
        self._count = count
        # So many tokens' memory each slot has touched since it was last given back.
        self._held = [0] * (count + spare)
        self._budget = budget
        # Asked of all rows at each step; the lengths in use change slowly.
        self._row_bytes = lru_cache(maxsize=4096)(row_bytes)
        self._can_reuse = can_reuse
        self._kept = PrefixCache(max_kept, self._row_bytes, can_reuse)
        self._operations: list[CacheOperation] = []

    def __iter__(self) -> Iterator[Sequence | None]:
        return iter(self._slots)

    @property
    def running(self) -> list[Sequence]:
        """Sequences that hold a slot, by slot."""
        return [sequence for sequence in self._slots if sequence is not None]

    @property
    def free(self) -> int:
        """Slots that a sequence could have."""
        return self._slots[: self._count].count(None)

    @property
    def used_bytes(self) -> int:
        """Memory of all rows."""
        return sum(map(self._row_bytes, self._held))

    @property
    def kept_tokens(self) -> int:
        """Tokens of ended sequences that are kept."""
        return self._kept.tokens

    def after(self, slot: int) -> list[Sequence | None]:
        """What is in the slots above one."""
        return self._slots[slot + 1 :]

    def take_operations(self) -> tuple[CacheOperation, ...]:
        """What has to be done to the cache by now; the caller does it, in order."""
        operations, self._operations = tuple(self._operations), []
        return operations

    def place(self, sequence: Sequence) -> None:
        """Give a sequence the lowest free slot, with what the cache holds of its tokens."""
        slot = self._slots.index(None)
        self._reuse_prefix(sequence, slot)
        sequence.slot = slot
        self._slots[slot] = sequence

    def reuse_again(self, sequence: Sequence) -> None:
        """Before a sequence's first step: use what others have computed since it was placed.

        So choices of one request, and requests with one long beginning that come at once, compute
        it once.
        """
        target = sequence.slot
        if target is None or sequence.num_computed > sequence.num_cached or not self._kept.enabled:
            return
        match = self._longest_match(sequence)
        if match is None or match.length <= sequence.num_computed:
            return
        if not self._make_room(self._row_bytes(match.length), spared=match.slot):
            return
        self._note_match(sequence, match)
        self._copy(match.slot, target, match.length)

    def could_reuse(self, sequence: Sequence, others: Iterable[Sequence]) -> bool:
        """Whether a sequence gains from the rows of others, once those are computed."""
        if not self._kept.enabled:
            return False
        # Prompts are compared from where the sequence is now: what it has, it need not gain.
        start, stop = sequence.num_computed, sequence.num_computed + SHORTEST_MATCH
        return stop <= sequence.reusable and any(
            other.salt == sequence.salt and other.tokens(0, stop) == sequence.tokens(0, stop)
            for other in others
            if other.tokens(start, stop) == sequence.tokens(start, stop)
        )

    def vacate(self, sequence: Sequence, *, keep: bool) -> None:
        """Take a sequence out of its slot; others may have a use for what it leaves there."""
        slot, sequence.slot = sequence.slot, None
        assert slot is not None
        self._slots[slot] = None
        self._keep_or_release(sequence, slot, keep)

    def compact(self) -> None:
        """Fill holes with the sequences of the highest slots."""
        count = len(self.running)
        holes = [slot for slot in range(count) if self._slots[slot] is None]
        for hole in holes:
            sequence = next(s for s in reversed(self._slots) if s is not None)
            source = sequence.slot
            assert source is not None
            self._displace(hole)
            self._slots[source], self._slots[hole] = None, sequence
            sequence.slot = hole
            self._move(source, hole, sequence.num_computed)

    def grow(self, lengths: Iterable[tuple[int, int]]) -> bool:
        """Let rows have at least so many tokens, as pairs of a slot and a length.

        Returns:
            whether there is memory for that. Kept rows give theirs; where that is too little,
            nothing has grown.
        """
        grown = [(slot, max(self._held[slot], length)) for slot, length in lengths]
        more = sum(self._row_bytes(n) - self._row_bytes(self._held[slot]) for slot, n in grown)
        if not self._make_room(more):
            return False
        for slot, length in grown:
            self._held[slot] = length
        return True

    def check_idle(self) -> None:
        """Check that with no sequence running, nothing but kept rows holds memory.

        Raises:
            RuntimeError: something is left, or there is more than there may be.
        """
        holding = {slot for slot, length in enumerate(self._held) if length}
        if any(sequence is not None for sequence in self._slots) or holding != self._kept.slots:
            raise RuntimeError("slots of the KV cache are held, but no sequence runs")
        if not self._fits(0):
            raise RuntimeError(f"the KV cache takes {self.used_bytes} of {self._budget} bytes")

    def _make_room(self, more: int, spared: int = -1) -> bool:
        """Drop kept rows, those used longest ago first, until so many bytes more fit."""
        while more > 0 and not self._fits(more):
            oldest = self._kept.oldest_but(spared)
            if oldest is None:
                return False
            self._kept.drop(oldest)
            self._release(oldest)
        return True

    def _keep_or_release(self, sequence: Sequence, slot: int, keep: bool) -> None:
        tokens = sequence.tokens(0, sequence.num_computed) if keep and self._kept.enabled else []
        if self._kept.keep(slot, tokens, sequence.salt):
            gone = [*self._kept.drop_beginnings(slot), *self._kept.drop_beyond_budget()]
        else:
            gone = [slot]
        for dropped in gone:
            self._release(dropped)

    def _reuse_prefix(self, sequence: Sequence, target: int) -> None:
        """Start a sequence in a free slot with what the cache holds of its tokens."""
        match = self._longest_match(sequence) if self._kept.enabled else None
        if match is None:
            self._displace(target)
            return
        self._note_match(sequence, match)
        if match.slot == target and (self._takes_over(match) or self._free_above(target) is None):
            self._kept.drop(target)
            self._trim(target, match.length)
            return
        displaced = self._displace(target)
        source = displaced if match.slot == target else match.slot
        if self._takes_over(Match(source, match.length)):
            self._take_over(source, target, match.length)
        else:
            self._copy(source, target, match.length)

    def _note_match(self, sequence: Sequence, match: Match) -> None:
        sequence.num_computed = match.length
        if not sequence.furthest:
            sequence.num_cached = match.length
        if match.slot in self._kept:
            self._kept.touch(match.slot)

    def _longest_match(self, sequence: Sequence) -> Match | None:
        """Among rows that are kept and rows that run."""
        wanted = np.array(sequence.tokens(0, sequence.reusable), dtype=np.int64)
        best = self._kept.match(wanted, sequence.salt)
        beginning = sequence.tokens(0, SHORTEST_MATCH)
        for other in self.running:
            if other.salt != sequence.salt or other.slot is None:
                continue
            # Most rows share nothing, and are told apart before all of their tokens are looked at.
            if other.tokens(0, SHORTEST_MATCH) != beginning:
                continue
            held = np.array(other.tokens(0, min(other.num_computed, len(wanted))), dtype=np.int64)
            length = common_prefix(held, wanted)
            if length < SHORTEST_MATCH or not self._can_reuse(other.num_computed, length):
                continue
            if best is None or length > best.length:
                best = Match(other.slot, length)
        return best

    def _takes_over(self, match: Match) -> bool:
        """Whether a kept row becomes that of who matches it, and loses what is behind the match.

        Where next to nothing is, as when a conversation goes on; and where most of it matches and
        memory for a copy could only come from other rows. What matches may be a beginning that many
        share, so that others are to find the rest. Rows that run are never taken over.
        """
        if match.slot not in self._kept:
            return False
        tokens = len(self._kept[match.slot].tokens)
        if tokens - match.length < SHORTEST_MATCH:
            return True
        return 2 * match.length >= tokens and not self._fits(self._row_bytes(match.length))

    def _fits(self, more: int) -> bool:
        return self._budget is None or self.used_bytes + more <= self._budget

    def _displace(self, target: int) -> int:
        """Make a slot free of what is kept in it; gives the slot where that is now.

        The one that was used last must not be lost: its beginning may be copied or moved next.
        """
        if target not in self._kept:
            return target
        free = self._free_above(target)
        if free is None:
            free = self._kept.drop_oldest()
            self._release(free)
        if free != target:
            length = len(self._kept[target].tokens)
            self._kept.move(target, free)
            self._move(target, free, length)
        return free

    def _free_above(self, slot: int) -> int | None:
        above = range(slot + 1, len(self._slots))
        return next((other for other in above if self._is_free(other)), None)

    def _is_free(self, slot: int) -> bool:
        return self._slots[slot] is None and slot not in self._kept

    # --- operations, and what they do to the memory of slots --------------------------------------

    def _copy(self, source: int, target: int, length: int) -> None:
        if self._make_room(self._row_bytes(length), spared=source):
            self._operations.append(Copy(source, target, length))
            self._held[target] = length
        else:  # There is no memory for both. Running rows have a copy's memory promised to them.
            self._take_over(source, target, length)

    def _take_over(self, source: int, target: int, length: int) -> None:
        self._kept.drop(source)
        self._move(source, target, length)

    def _move(self, source: int, target: int, length: int) -> None:
        self._operations.append(Move(source, target, length))
        self._held[source], self._held[target] = 0, length

    def _trim(self, slot: int, length: int) -> None:
        if self._row_bytes(length) < self._row_bytes(self._held[slot]):
            self._operations.append(Trim(slot, length))
        self._held[slot] = length

    def _release(self, slot: int) -> None:
        self._operations.append(Release(slot))
        self._held[slot] = 0
