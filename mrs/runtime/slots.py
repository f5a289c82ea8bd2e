"""Who is in which slot of the KV cache, and what ended sequences leave there for others.

Running sequences sit in the lowest slots, so that a batch is always a run of neighbouring slots.
Whatever changes in the cache because of a decision is noted, in order, as `CacheOperation`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mrs.runtime.cache_operations import CacheOperation, Copy, Move, Release
from mrs.runtime.prefix_cache import SHORTEST_MATCH, Match, PrefixCache, common_prefix
from mrs.runtime.sequence import Sequence


class Slots:
    """The slots of a cache.

    Args:
        count: how many there are.
        max_kept_tokens: most tokens of ended sequences that are kept; 0 for none.
    """

    def __init__(self, count: int, max_kept_tokens: int) -> None:
        self._slots: list[Sequence | None] = [None] * count
        self._kept = PrefixCache(max_kept_tokens)
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
        return self._slots.count(None)

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
        """Give a sequence the lowest free slot, with what the cache holds of its prompt."""
        slot = self._slots.index(None)
        self._reuse_prefix(sequence, slot)
        sequence.slot = slot
        self._slots[slot] = sequence

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
            self._operations.append(Move(source, hole, sequence.num_computed))

    def _keep_or_release(self, sequence: Sequence, slot: int, keep: bool) -> None:
        tokens = sequence.tokens(0, sequence.num_computed) if keep and self._kept.enabled else []
        if self._kept.keep(slot, tokens, sequence.salt):
            gone = [*self._kept.drop_beginnings(slot), *self._kept.drop_beyond_budget()]
        else:
            gone = [slot]
        self._operations.extend(Release(dropped) for dropped in gone)

    def _reuse_prefix(self, sequence: Sequence, target: int) -> None:
        """Start a sequence in a free slot with what the cache holds of its prompt."""
        match = self._longest_match(sequence) if self._kept.enabled else None
        if match is None:
            self._displace(target)
            return
        sequence.num_computed = sequence.num_cached = match.length
        if match.slot in self._kept:
            self._kept.touch(match.slot)
        if match.slot != target:
            self._displace(target)
            self._operations.append(Copy(match.slot, target, match.length))
        elif self._is_mostly(match) or self._free_slot_above(target) is None:
            self._kept.drop(target)
        else:
            self._operations.append(Copy(self._displace(target), target, match.length))

    def _longest_match(self, sequence: Sequence) -> Match | None:
        """Among rows that are kept and rows that run."""
        prompt = np.array(sequence.prompt_ids, dtype=np.int64)
        best = self._kept.match(prompt, sequence.salt)
        beginning = sequence.tokens(0, SHORTEST_MATCH)
        for other in self.running:
            if other.salt != sequence.salt or other.slot is None:
                continue
            # Most rows share nothing, and are told apart before all of their tokens are looked at.
            if other.tokens(0, SHORTEST_MATCH) != beginning:
                continue
            held = np.array(other.tokens(0, min(other.num_computed, len(prompt))), dtype=np.int64)
            length = common_prefix(held, prompt[:-1])
            if length >= SHORTEST_MATCH and (best is None or length > best.length):
                best = Match(other.slot, length)
        return best

    def _is_mostly(self, match: Match) -> bool:
        """Whether a kept row is used up by a match, and not just a beginning that many share."""
        return 2 * match.length >= len(self._kept[match.slot].tokens)

    def _displace(self, target: int) -> int:
        """Make a slot free of what is kept in it; gives the slot where that is now.

        The one that was used last must not be lost: its beginning may be copied next.
        """
        if target not in self._kept:
            return target
        free = self._free_slot_above(target)
        if free is None:
            free = self._kept.drop_oldest()
            self._operations.append(Release(free))
        if free != target:
            self._operations.append(Move(target, free, len(self._kept[target].tokens)))
            self._kept.move(target, free)
        return free

    def _free_slot_above(self, slot: int) -> int | None:
        above = range(slot + 1, len(self._slots))
        return next((other for other in above if self._is_free(other)), None)

    def _is_free(self, slot: int) -> bool:
        return self._slots[slot] is None and slot not in self._kept
