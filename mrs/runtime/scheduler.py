"""Who runs next: continuous batching over slots (Yu et al., Orca, OSDI 2022).

Pure Python over sequence states; holds no tensors. Sequences sit in the lowest slots, so that a
batch is always a run of neighbouring slots of the KV cache.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mrs.errors import InvalidValueError, QueueFullError
from mrs.runtime.cache_operations import CacheOperation, Copy, Move, Release
from mrs.runtime.prefix_cache import SHORTEST_MATCH, Match, PrefixCache, common_prefix
from mrs.runtime.sequence import Sequence


@dataclass(frozen=True)
class SchedulerConfig:
    """Bounds of the scheduler.

    Attributes:
        max_seqs: slots.
        prefill_chunk: most prompt tokens of a step while nothing decodes.
        busy_prefill_chunk: the same while others decode: bounds the pause between their tokens.
        max_waiting: most sequences in the queue.
        max_waiting_tokens: most prompt tokens in the queue.
        max_cached_tokens: most tokens of ended sequences that are kept for others; 0 for none.
    """

    max_seqs: int = 16
    # Attention computes whole squares: 256 at a time runs 10 % faster than 512, fewer no faster.
    prefill_chunk: int = 256
    busy_prefill_chunk: int = 128
    max_waiting: int = 256
    max_waiting_tokens: int = 1 << 20
    max_cached_tokens: int = 0


@dataclass(frozen=True)
class Row:
    """One slot's share of a step.

    Attributes:
        sequence: who is in the slot.
        past: its tokens that are in the cache already.
        new: its tokens that this step computes; 0 leaves the row idle.
        draws: whether the step gives its next token.
    """

    sequence: Sequence
    past: int
    new: int
    draws: bool


@dataclass(frozen=True)
class Step:
    """One run of the model over neighbouring slots.

    Attributes:
        first_slot: slot of the first row.
        rows: one per slot; None where a slot is empty.
        moves: what is done to the cache first, in order.
    """

    first_slot: int
    rows: tuple[Row | None, ...]
    moves: tuple[CacheOperation, ...] = ()

    @property
    def active(self) -> Iterable[Row]:
        """Rows that compute something."""
        return (row for row in self.rows if row is not None and row.new)


class Scheduler:
    """First come, first served admission into slots; prefill and decode steps take turns.

    Nobody waits while a slot is free. Not thread-safe.

    Args:
        config: bounds.
    """

    def __init__(self, config: SchedulerConfig) -> None:
        self.config = config
        self._waiting: deque[Sequence] = deque()
        self._waiting_tokens = 0
        self._slots: list[Sequence | None] = [None] * config.max_seqs
        self._prefilled_last = False
        self._kept = PrefixCache(config.max_cached_tokens)
        self._operations: list[CacheOperation] = []

    @property
    def waiting(self) -> int:
        """Sequences in the queue."""
        return len(self._waiting)

    @property
    def running(self) -> list[Sequence]:
        """Sequences that hold a slot, by slot."""
        return [sequence for sequence in self._slots if sequence is not None]

    @property
    def kept_tokens(self) -> int:
        """Tokens of ended sequences that are kept."""
        return self._kept.tokens

    @property
    def has_work(self) -> bool:
        """Some sequence is running or waiting."""
        return bool(self._waiting) or any(self._slots)

    def check_room(self, count: int, prompt_tokens: int) -> None:
        """Refuse ``count`` more sequences of ``prompt_tokens`` each beyond the queue's bounds.

        Sequences that find a free slot do not count against the queue. An empty queue takes a
        prompt of any length.

        Raises:
            InvalidValueError: so many would not even fit an idle engine.
            QueueFullError: the queue is at its bound.
        """
        bounds = self.config
        if count > bounds.max_seqs + bounds.max_waiting:
            raise InvalidValueError(
                f"{count} choices are asked for; {bounds.max_seqs + bounds.max_waiting} can run "
                "or wait at once.",
                hint="Ask for fewer.",
                param="n",
            )
        added = max(0, count - self._slots.count(None))
        if added and self.waiting + added > bounds.max_waiting:
            raise QueueFullError(
                f"{self.waiting} requests are waiting; the queue holds {bounds.max_waiting}.",
                hint="Try again later, or start the server with more --max-seqs.",
            )
        queued = self._waiting_tokens
        if queued and queued + added * prompt_tokens > bounds.max_waiting_tokens:
            raise QueueFullError(
                f"{queued} prompt tokens are waiting; the queue holds {bounds.max_waiting_tokens}.",
                hint="Try again later.",
            )

    def add(self, sequence: Sequence) -> None:
        """Give a sequence a slot, or put it at the end of the queue."""
        self._waiting.append(sequence)
        self._waiting_tokens += len(sequence.prompt_ids)
        self._fill_slots()

    def remove(self, sequence: Sequence, *, keep: bool = True) -> None:
        """Forget a sequence, wherever it is; its slot goes to the first in the queue.

        Args:
            sequence: it may be unknown.
            keep: what the cache holds of it may be of use to others.
        """
        slot, sequence.slot = sequence.slot, None
        if slot is not None:
            self._slots[slot] = None
            self._keep_or_release(sequence, slot, keep)
            self._fill_slots()
        elif sequence in self._waiting:
            self._waiting.remove(sequence)
            self._waiting_tokens -= len(sequence.prompt_ids)

    def take_operations(self) -> tuple[CacheOperation, ...]:
        """What has to be done to the cache by now; the caller does it, in order."""
        operations, self._operations = tuple(self._operations), []
        return operations

    def schedule(self) -> Step | None:
        """The next step, or None when there is nothing to do."""
        self._compact()
        prefilling = [s for s in self.running if s.is_prefilling]
        decoding = [s for s in self.running if not s.is_prefilling]
        if prefilling and not (decoding and self._prefilled_last):
            self._prefilled_last = True
            return self._prefill_step(prefilling, busy=bool(decoding))
        self._prefilled_last = False
        return self._decode_step() if decoding else None

    def _fill_slots(self) -> None:
        for slot, holder in enumerate(self._slots):
            if not self._waiting:
                return
            if holder is None:
                sequence = self._waiting.popleft()
                self._waiting_tokens -= len(sequence.prompt_ids)
                self._reuse_prefix(sequence, slot)
                sequence.slot = slot
                self._slots[slot] = sequence

    # --- what ended sequences leave behind -------------------------------------------------------

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
            self._vacate(target)
            return
        sequence.num_computed = sequence.num_cached = match.length
        if match.slot in self._kept:
            self._kept.touch(match.slot)
        if match.slot != target:
            self._vacate(target)
            self._operations.append(Copy(match.slot, target, match.length))
        elif self._is_mostly(match) or self._free_slot_above(target) is None:
            self._kept.drop(target)
        else:
            self._operations.append(Copy(self._vacate(target), target, match.length))

    def _longest_match(self, sequence: Sequence) -> Match | None:
        """Among rows that are kept and rows that run."""
        prompt = np.array(sequence.prompt_ids, dtype=np.int64)
        best = self._kept.match(prompt, sequence.salt)
        for other in self.running:
            if other.salt != sequence.salt or other.slot is None:
                continue
            held = np.array(other.tokens(0, min(other.num_computed, len(prompt))), dtype=np.int64)
            length = common_prefix(held, prompt[:-1])
            if length >= SHORTEST_MATCH and (best is None or length > best.length):
                best = Match(other.slot, length)
        return best

    def _is_mostly(self, match: Match) -> bool:
        """Whether a kept row is used up by a match, and not just a beginning that many share."""
        return 2 * match.length >= len(self._kept[match.slot].tokens)

    def _vacate(self, target: int) -> int:
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

    # --- steps -----------------------------------------------------------------------------------

    def _compact(self) -> None:
        """Fill holes with the sequences of the highest slots."""
        count = len(self.running)
        holes = [slot for slot in range(count) if self._slots[slot] is None]
        for hole in holes:
            sequence = next(s for s in reversed(self._slots) if s is not None)
            source = sequence.slot
            assert source is not None
            self._vacate(hole)
            self._slots[source], self._slots[hole] = None, sequence
            sequence.slot = hole
            self._operations.append(Move(source, hole, sequence.num_computed))

    def _decode_step(self) -> Step:
        rows = []
        for sequence in self._slots[: len(self.running)]:
            assert sequence is not None
            new = 0 if sequence.is_prefilling else 1
            rows.append(Row(sequence, sequence.num_computed, new, draws=bool(new)))
        return Step(0, tuple(rows), self.take_operations())

    def _prefill_step(self, prefilling: list[Sequence], busy: bool) -> Step:
        """A chunk of the oldest prompt, and whole short prompts in the slots after it."""
        budget = self.config.busy_prefill_chunk if busy else self.config.prefill_chunk
        oldest = min(prefilling, key=lambda sequence: sequence.id)
        assert oldest.slot is not None
        rows = [_prefill_row(oldest, budget)]
        for sequence in self._slots[oldest.slot + 1 :]:
            if sequence is None or not sequence.is_prefilling or not rows[0].draws:
                break
            row = _prefill_row(sequence, budget)
            if not row.draws or not _worth_padding([*rows, row], budget):
                break
            rows.append(row)
        return Step(oldest.slot, tuple(rows), self.take_operations())


def _prefill_row(sequence: Sequence, budget: int) -> Row:
    missing = sequence.length - sequence.num_computed
    new = min(missing, budget)
    return Row(sequence, sequence.num_computed, new, draws=new == missing)


def _worth_padding(rows: list[Row], budget: int) -> bool:
    """Rows are padded to the longest: at most the budget, and at most a quarter of it wasted."""
    padded = len(rows) * max(row.new for row in rows)
    return padded <= budget and padded * 3 <= sum(row.new for row in rows) * 4
