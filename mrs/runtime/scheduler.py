"""Who runs next: continuous batching over slots (Yu et al., Orca, OSDI 2022).

Pure Python over sequence states; holds no tensors. Sequences sit in the lowest slots, so that a
batch is always a run of neighbouring slots of the KV cache.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from mrs.errors import InvalidValueError, QueueFullError
from mrs.runtime.cache_operations import CacheOperation
from mrs.runtime.sequence import Sequence
from mrs.runtime.slots import Slots


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
    # Attention computes whole squares: 128 at a time runs 10 to 15 % faster than 512, and fewer no
    # faster.
    prefill_chunk: int = 128
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
        draws: whether the logits of the last position give the next token.
        scored: so many positions before that one (or, where nothing is drawn, so many last ones)
            have logits that are wanted, too.
    """

    sequence: Sequence
    past: int
    new: int
    draws: bool
    scored: int = 0

    @property
    def wanted(self) -> int:
        """So many last positions have logits that are wanted."""
        return self.scored + self.draws


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
        self._slots = Slots(config.max_seqs, config.max_cached_tokens)
        self._prefilled_last = False

    @property
    def waiting(self) -> int:
        """Sequences in the queue."""
        return len(self._waiting)

    @property
    def running(self) -> list[Sequence]:
        """Sequences that hold a slot, by slot."""
        return self._slots.running

    @property
    def kept_tokens(self) -> int:
        """Tokens of ended sequences that are kept."""
        return self._slots.kept_tokens

    @property
    def has_work(self) -> bool:
        """Some sequence is running or waiting."""
        return bool(self._waiting) or bool(self._slots.running)

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
        added = max(0, count - self._slots.free)
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
        if sequence.slot is not None:
            self._slots.vacate(sequence, keep=keep)
            self._fill_slots()
        elif sequence in self._waiting:
            self._waiting.remove(sequence)
            self._waiting_tokens -= len(sequence.prompt_ids)

    def take_operations(self) -> tuple[CacheOperation, ...]:
        """What has to be done to the cache by now; the caller does it, in order."""
        return self._slots.take_operations()

    def schedule(self) -> Step | None:
        """The next step, or None when there is nothing to do."""
        self._slots.compact()
        prefilling = [s for s in self.running if s.is_prefilling]
        decoding = [s for s in self.running if not s.is_prefilling]
        if prefilling and not (decoding and self._prefilled_last):
            self._prefilled_last = True
            return self._prefill_step(prefilling, busy=bool(decoding))
        self._prefilled_last = False
        return self._decode_step() if decoding else None

    def _fill_slots(self) -> None:
        while self._waiting and self._slots.free:
            sequence = self._waiting.popleft()
            self._waiting_tokens -= len(sequence.prompt_ids)
            self._slots.place(sequence)

    def _decode_step(self) -> Step:
        rows = []
        for sequence in self.running:
            new = 0 if sequence.is_prefilling else 1
            rows.append(Row(sequence, sequence.num_computed, new, draws=bool(new)))
        return Step(0, tuple(rows), self.take_operations())

    def _prefill_step(self, prefilling: list[Sequence], busy: bool) -> Step:
        """A chunk of the oldest prompt, and whole short prompts in the slots after it."""
        budget = self.config.busy_prefill_chunk if busy else self.config.prefill_chunk
        oldest = min(prefilling, key=lambda sequence: sequence.id)
        assert oldest.slot is not None
        rows = [_prefill_row(oldest, budget)]
        for sequence in self._slots.after(oldest.slot):
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
