"""Who runs next: continuous batching over slots (Yu et al., Orca, OSDI 2022).

Pure Python over sequence states; holds no tensors. Sequences sit in the lowest slots, so that a
batch is always a run of neighbouring slots of the KV cache.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from mrs.errors import InvalidValueError, QueueFullError
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
    """

    max_seqs: int = 16
    # Attention computes whole squares: 256 at a time runs 10 % faster than 512, fewer no faster.
    prefill_chunk: int = 256
    busy_prefill_chunk: int = 128
    max_waiting: int = 256
    max_waiting_tokens: int = 1 << 20


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
class Move:
    """Copy ``length`` tokens of the cache from one slot to another before the step."""

    source: int
    target: int
    length: int


@dataclass(frozen=True)
class Step:
    """One run of the model over neighbouring slots.

    Attributes:
        first_slot: slot of the first row.
        rows: one per slot; None where a slot is empty.
        moves: to be carried out first, in order.
    """

    first_slot: int
    rows: tuple[Row | None, ...]
    moves: tuple[Move, ...] = ()

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

    @property
    def waiting(self) -> int:
        """Sequences in the queue."""
        return len(self._waiting)

    @property
    def running(self) -> list[Sequence]:
        """Sequences that hold a slot, by slot."""
        return [sequence for sequence in self._slots if sequence is not None]

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

    def remove(self, sequence: Sequence) -> int | None:
        """Forget a sequence, wherever it is; its slot goes to the first in the queue.

        Returns:
            the slot that it had, if any: what the cache holds there is of no use any more.
        """
        slot, sequence.slot = sequence.slot, None
        if slot is not None:
            self._slots[slot] = None
            self._fill_slots()
        elif sequence in self._waiting:
            self._waiting.remove(sequence)
            self._waiting_tokens -= len(sequence.prompt_ids)
        return slot

    def schedule(self) -> Step | None:
        """The next step, or None when there is nothing to do."""
        moves = tuple(self._compact())
        prefilling = [s for s in self.running if s.is_prefilling]
        decoding = [s for s in self.running if not s.is_prefilling]
        if prefilling and not (decoding and self._prefilled_last):
            self._prefilled_last = True
            return self._prefill_step(prefilling, moves, busy=bool(decoding))
        self._prefilled_last = False
        return self._decode_step(moves) if decoding else None

    def _fill_slots(self) -> None:
        for slot, holder in enumerate(self._slots):
            if not self._waiting:
                return
            if holder is None:
                sequence = self._waiting.popleft()
                self._waiting_tokens -= len(sequence.prompt_ids)
                sequence.slot = slot
                self._slots[slot] = sequence

    def _compact(self) -> Iterable[Move]:
        """Fill holes with the sequences of the highest slots."""
        count = len(self.running)
        holes = [slot for slot in range(count) if self._slots[slot] is None]
        for hole in holes:
            sequence = next(s for s in reversed(self._slots) if s is not None)
            source = sequence.slot
            assert source is not None
            self._slots[source], self._slots[hole] = None, sequence
            sequence.slot = hole
            yield Move(source, hole, sequence.num_computed)

    def _decode_step(self, moves: tuple[Move, ...]) -> Step:
        rows = []
        for sequence in self._slots[: len(self.running)]:
            assert sequence is not None
            new = 0 if sequence.is_prefilling else 1
            rows.append(Row(sequence, sequence.num_computed, new, draws=bool(new)))
        return Step(0, tuple(rows), moves)

    def _prefill_step(
        self, prefilling: list[Sequence], moves: tuple[Move, ...], busy: bool
    ) -> Step:
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
        return Step(oldest.slot, tuple(rows), moves)


def _prefill_row(sequence: Sequence, budget: int) -> Row:
    missing = sequence.length - sequence.num_computed
    new = min(missing, budget)
    return Row(sequence, sequence.num_computed, new, draws=new == missing)


def _worth_padding(rows: list[Row], budget: int) -> bool:
    """Rows are padded to the longest: at most the budget, and at most a quarter of it wasted."""
    padded = len(rows) * max(row.new for row in rows)
    return padded <= budget and padded * 3 <= sum(row.new for row in rows) * 4
