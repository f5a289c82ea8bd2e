"""Guesses by a smaller model with the same tokens."""

from __future__ import annotations

from collections.abc import Sequence as Collection

import numpy as np
from numpy.typing import NDArray

from mrs.runtime.cache_operations import CacheOperation, Copy, Move, Release, Trim
from mrs.runtime.kv_cache import KVCache
from mrs.runtime.prefix_cache import common_prefix
from mrs.runtime.sequence import Sequence
from mrs.runtime.speculation.proposer import Wish
from mrs.runtime.step import Row, Step, StepRunner


class DraftModel:
    """A `mrs.runtime.speculation.proposer.Proposer`: another model, which is asked greedily.

    It has a KV cache with the same slots, where each sequence has the place that it has in the
    other one. What is in a slot is remembered as tokens and compared with the sequence's: rows that
    were moved, copied, cut or given to others are right, and of any that is not, what differs is
    computed again.

    Args:
        runner: computes the model's steps.
        cache: its KV cache.
        vocab_size: tokens of the model that is guessed for; the draft's own may be padded.
        max_length: most tokens that it can have of a sequence.
        chunk: most tokens of a prompt that it computes at once.
    """

    def __init__(
        self, runner: StepRunner, cache: KVCache, vocab_size: int, max_length: int, chunk: int
    ) -> None:
        self._runner = runner
        self._cache = cache
        self._vocab_size = vocab_size
        self._max_length = max_length
        self._chunk = chunk
        self._held: list[list[int]] = [[] for _ in range(cache.shape.slots)]

    def propose(self, wishes: Collection[Wish]) -> list[list[int]]:
        """Guesses for each wish.

        A sequence of which much is missing here gets a chunk of it, and no guesses yet: nobody's
        step may wait for whole prompts.
        """
        wishes = [self._shortened(wish) for wish in wishes]
        behind = [wish for wish in wishes if wish.most > 0 and self._missing(wish) > self._chunk]
        if behind:
            self._catch_up(behind[0].sequence)
        asked = [wish for wish in wishes if wish.most > 0 and wish not in behind]
        guesses: dict[Sequence, list[int]] = {wish.sequence: [] for wish in wishes}
        for step in range(max((wish.most for wish in asked), default=0)):
            rows = [wish.sequence for wish in asked if wish.most > step]
            rows = [one for one in rows if len(guesses[one]) == step]
            if not rows:
                break
            for sequence, token in zip(rows, self._likeliest(rows), strict=True):
                if token < self._vocab_size:
                    guesses[sequence].append(token)
                    sequence.guesses = tuple(guesses[sequence])
        for wish in wishes:
            wish.sequence.guesses = ()
        return [guesses[wish.sequence] for wish in wishes]

    def carry_out(self, operation: CacheOperation) -> None:
        """Do with the rows here what is done with those of the other cache."""
        match operation:
            case Move(source, target, length):
                kept = self._first(source, length)
                self._cache.move(source, target, len(kept))
                self._held[source], self._held[target] = [], kept
            case Copy(source, target, length):
                kept = self._first(source, length)
                self._cache.copy(source, target, len(kept))
                self._held[target] = kept
            case Release(slot):
                self._cache.release(slot)
                self._held[slot] = []
            case Trim(slot, length):
                self._held[slot] = self._first(slot, length)
                self._cache.carry_out(Trim(slot, len(self._held[slot])))

    def _first(self, slot: int, length: int) -> list[int]:
        """The tokens that a slot has when it is cut to so many; none if it cannot be."""
        held = self._held[slot]
        length = min(length, len(held))
        return held[:length] if self._cache.shape.can_reuse(len(held), length) else []

    def _shortened(self, wish: Wish) -> Wish:
        return Wish(wish.choice, min(wish.most, self._max_length - wish.sequence.length))

    def _missing(self, wish: Wish) -> int:
        return wish.sequence.length - self._agreed(wish.sequence)

    def _agreed(self, sequence: Sequence) -> int:
        """First tokens of a sequence that are in its slot; its newest one does not count."""
        assert sequence.slot is not None
        held = np.array(self._held[sequence.slot], dtype=np.int64)
        length = sequence.length + len(sequence.guesses) - 1
        tokens = np.array(sequence.tokens(0, min(len(held), length)), dtype=np.int64)
        return len(self._first(sequence.slot, common_prefix(tokens, held)))

    def _catch_up(self, sequence: Sequence) -> None:
        past = self._agreed(sequence)
        self._run([Row(sequence, past, self._chunk, draws=False)])

    def _likeliest(self, sequences: list[Sequence]) -> list[int]:
        """The likeliest next token of each."""
        rows = []
        for sequence in sequences:
            past = self._agreed(sequence)
            length = sequence.length + len(sequence.guesses)
            rows.append(Row(sequence, past, length - past, draws=True))
        order = sorted(rows, key=lambda row: row.sequence.slot or 0)
        drawn = dict(zip((row.sequence for row in order), self._run(order), strict=True))
        return [int(drawn[sequence].argmax()) for sequence in sequences]

    def _run(self, rows: list[Row]) -> NDArray[np.float32]:
        """Compute rows, in the order of their slots."""
        by_slot = {row.sequence.slot: row for row in rows}
        first, last = min(by_slot, key=_slot), max(by_slot, key=_slot)
        assert first is not None
        assert last is not None
        step = Step(first, tuple(by_slot.get(slot) for slot in range(first, last + 1)))
        logits = self._runner.run(step)
        for slot, row in by_slot.items():
            assert slot is not None
            # What a step writes behind a cut is all that is right behind it.
            held = self._held[slot][: row.past]
            self._held[slot] = held + row.sequence.tokens(row.past, row.past + row.new)
        return logits


def _slot(slot: int | None) -> int:
    return -1 if slot is None else slot
