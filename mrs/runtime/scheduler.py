"""Who runs next: continuous batching over slots (Yu et al., Orca, OSDI 2022).

Pure Python over sequence states; holds no tensors. Sequences sit in the lowest slots, so that a
batch is always a run of neighbouring slots of the KV cache.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from mrs.errors import InvalidValueError, QueueFullError
from mrs.runtime.cache_operations import CacheOperation
from mrs.runtime.sequence import LEAST_TOGETHER, Sequence
from mrs.runtime.slots import Slots
from mrs.runtime.step import Row, Step

HEADROOM = 32
"""Tokens for which an admitted sequence must have memory beyond those that it has: one that takes
the last page would be preempted before it has drawn anything."""

ATTENTION_DEPTH = 2048
"""Tokens behind which a chunk of a prompt takes twice as long as at its beginning (measured with
SmolLM2-135M; it is more for larger models, whose attention is a smaller part)."""

TAIL = 4
"""The last chunk of a prompt may be larger by one part in so many: a step for a handful of tokens
takes longer than they do in the one before."""


def one_byte_a_token(tokens: int) -> int:
    """Sizes of rows where nobody says otherwise: budgets are counted in tokens then."""
    return tokens


def any_length(held: int, length: int) -> bool:
    """Where no layer has a window, rows can be cut to any length."""
    return length <= held


@dataclass(frozen=True)
class SchedulerConfig:
    """Bounds of the scheduler.

    Attributes:
        max_seqs: slots of sequences that run.
        prefill_chunk: most tokens of a step that computes prompts, padding included. It bounds the
            pause between two tokens of those who decode; deep in a prompt, where attention takes
            longer, chunks are shorter while anybody does.
        max_waiting: most sequences in the queue.
        max_waiting_tokens: most prompt tokens in the queue.
        max_kv_bytes: memory for all rows of the KV cache; None for any.
        max_kept_bytes: the part of it that rows of ended sequences may have; 0 for none.
        row_bytes: memory that a row of so many tokens takes.
        can_reuse: whether a row of so many tokens can be cut to so many.
        max_logits: most positions of a step whose logits are wanted; at least ``max_seqs``.
        spare_slots: slots beyond ``max_seqs``, for rows of ended sequences.
    """

    max_seqs: int = 16
    # Attention computes whole squares: 128 at a time runs 10 to 15 % faster than 512, and fewer no
    # faster.
    prefill_chunk: int = 128
    max_waiting: int = 256
    max_waiting_tokens: int = 1 << 20
    max_kv_bytes: int | None = None
    max_kept_bytes: int = 0
    row_bytes: Callable[[int], int] = one_byte_a_token
    can_reuse: Callable[[int, int], bool] = any_length
    max_logits: int = 1 << 20
    spare_slots: int = 0


class Scheduler:
    """First come, first served admission into slots; prefill and decode steps take turns.

    Nobody waits while there is a slot and memory for the first in the queue. Who is admitted has
    memory for all tokens that it has by then. When those who run need more than there is, kept rows
    go first, and then the newest sequence is preempted: it goes back to the front of the queue,
    and computes what the cache has lost of it when it runs again (Kwon et al., PagedAttention, SOSP
    2023, "recomputation"). So the oldest one always goes on, and everyone is the oldest one day.

    Not thread-safe.

    Args:
        config: bounds.
    """

    def __init__(self, config: SchedulerConfig) -> None:
        self.config = config
        self.preemptions = 0
        self._waiting: deque[Sequence] = deque()
        self._waiting_tokens = 0
        self._slots = Slots(
            config.max_seqs,
            config.spare_slots,
            config.max_kv_bytes,
            config.max_kept_bytes,
            config.row_bytes,
            config.can_reuse,
        )
        self._arrivals = itertools.count()
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
    def kv_bytes(self) -> int:
        """Memory that rows of the KV cache take."""
        return self._slots.used_bytes

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
        # Behind a queue, nobody gets a slot that is free for want of memory.
        added = count if self._waiting else max(0, count - self._slots.free)
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
        sequence.arrival = next(self._arrivals)
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
        elif sequence in self._waiting:
            self._waiting.remove(sequence)
            self._waiting_tokens -= len(sequence.prompt_ids)
        self._fill_slots()

    def take_operations(self) -> tuple[CacheOperation, ...]:
        """What has to be done to the cache by now; the caller does it, in order."""
        return self._slots.take_operations()

    def check_idle(self) -> None:
        """Check that nothing is left of sequences that have ended, when none runs or waits.

        Raises:
            RuntimeError: something is.
        """
        if self._waiting_tokens:
            raise RuntimeError(f"{self._waiting_tokens} tokens wait, but no sequence does")
        self._slots.check_idle()

    def schedule(self) -> Step | None:
        """The next step, or None when there is nothing to do.

        Its rows have the memory that they need. Between two steps for those who decode, there is at
        most one for prompts.
        """
        while True:
            self._slots.compact()
            chosen = self._choose()
            if chosen is None:
                return None
            first_slot, rows = chosen
            if self._slots.grow((first_slot + i, row.past + row.new) for i, row in enumerate(rows)):
                break
            if not self._drop_guesses():
                self._preempt_newest()
        # The first row of a step for prompts is one; of others, it may be one that is idle.
        self._prefilled_last = bool(rows[0].new) and rows[0].sequence.is_prefilling
        return Step(first_slot, tuple(rows), self.take_operations())

    @property
    def next_decoding(self) -> list[Sequence]:
        """Those who decode, if the next step is theirs; by slot."""
        decoding = [sequence for sequence in self.running if not sequence.is_prefilling]
        return decoding if len(decoding) == len(self.running) or self._prefilled_last else []

    def _choose(self) -> tuple[int, list[Row]] | None:
        """Slot of the first row, and a row for each slot from there on."""
        prefilling = [s for s in self.running if s.is_prefilling]
        if prefilling and not self.next_decoding:
            oldest = min(prefilling, key=lambda sequence: sequence.arrival)
            self._slots.reuse_again(oldest)
            return self._prefill_rows(oldest)
        return (0, [_decode_row(sequence) for sequence in self.running]) if self.running else None

    def _fill_slots(self) -> None:
        while self._waiting and self._slots.free and self._fits(self._waiting[0]):
            sequence = self._waiting.popleft()
            self._waiting_tokens -= len(sequence.prompt_ids)
            self._slots.place(sequence)

    def _fits(self, sequence: Sequence) -> bool:
        """Whether there is memory for one more; kept rows do not count, since they may go."""
        budget, running = self.config.max_kv_bytes, self.running
        if budget is None or not running:
            return True
        return sum(self._needs(one) for one in [*running, sequence]) <= budget

    def _needs(self, sequence: Sequence) -> int:
        return self.config.row_bytes(min(sequence.longest, sequence.length + HEADROOM))

    def _drop_guesses(self) -> bool:
        """Guesses take no memory from anybody. Returns whether there were any."""
        guessing = [sequence for sequence in self.running if sequence.guesses]
        for sequence in guessing:
            sequence.guesses = ()
        return bool(guessing)

    def _preempt_newest(self) -> None:
        newest = max(self.running, key=lambda sequence: sequence.arrival)
        if len(self.running) == 1:
            raise RuntimeError(f"a sequence of {newest.length} tokens alone exceeds the KV budget")
        self._slots.vacate(newest, keep=False)
        newest.num_computed = 0
        self._waiting.appendleft(newest)
        self._waiting_tokens += len(newest.prompt_ids)
        self.preemptions += 1

    def _prefill_rows(self, oldest: Sequence) -> tuple[int, list[Row]]:
        """A chunk of the oldest prompt, and whole short prompts in the slots after it."""
        assert oldest.slot is not None
        rows = [self._prefill_row(oldest)]
        for sequence in self._slots.after(oldest.slot):
            if sequence is None or not sequence.is_prefilling or not rows[0].draws:
                break
            if self._slots.could_reuse(sequence, (row.sequence for row in rows)):
                break  # Its turn comes when there is something to share.
            row = self._prefill_row(sequence)
            if not row.draws or not self._may_share([*rows, row]):
                break
            rows.append(row)
        return oldest.slot, rows

    def _prefill_row(self, sequence: Sequence) -> Row:
        past = sequence.num_computed
        scores = sequence.sampling.prompt_logprobs is not None and not sequence.output_ids
        most = self._chunk(past)
        missing = sequence.length - past
        if scores:
            most = min(most, self.config.max_logits)
        elif missing <= most + most // TAIL:
            most = missing
        new = min(missing, most)
        if new > LEAST_TOGETHER and 0 < missing - new < LEAST_TOGETHER:
            new -= LEAST_TOGETHER - (missing - new)
        draws = past + new == sequence.length
        unscored = past + new - draws - max(past, sequence.num_scored)
        return Row(sequence, past, new, draws, max(0, unscored) if scores else 0)

    def _chunk(self, past: int) -> int:
        """Most tokens of a chunk behind so many others."""
        chunk = self.config.prefill_chunk
        if all(sequence.is_prefilling for sequence in self.running):
            return chunk
        return max(LEAST_TOGETHER, ceil(chunk * ATTENTION_DEPTH / (ATTENTION_DEPTH + past)))

    def _may_share(self, rows: list[Row]) -> bool:
        """Whether rows, padded to the longest, stay within a chunk and waste a quarter at most."""
        padded = len(rows) * max(row.new for row in rows)
        if sum(row.wanted for row in rows) > self.config.max_logits:
            return False
        return padded <= self.config.prefill_chunk and padded * 3 <= 4 * sum(r.new for r in rows)


def _decode_row(sequence: Sequence) -> Row:
    if sequence.is_prefilling:
        return Row(sequence, sequence.num_computed, new=0, draws=False)
    guesses = len(sequence.guesses)
    return Row(sequence, sequence.num_computed, 1 + guesses, draws=True, guesses=guesses)
