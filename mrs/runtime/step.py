"""One run of the model: what it computes of which sequences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mrs.runtime.cache_operations import CacheOperation
from mrs.runtime.sequence import Sequence


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
        guesses: so many last ones of the new tokens are guesses; the logits before and of each
            are wanted.
    """

    sequence: Sequence
    past: int
    new: int
    draws: bool
    scored: int = 0
    guesses: int = 0

    @property
    def wanted(self) -> int:
        """So many last positions have logits that are wanted."""
        return self.scored + self.draws + self.guesses


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


class StepRunner(Protocol):
    """Computes a step; `mrs.runtime.decoder.Decoder`, or a stand-in in tests."""

    def run(self, step: Step) -> NDArray[np.float32]:
        """Logits ``[wanted positions, vocab]``; the step's moves have been carried out."""

    def interrupt(self) -> None:
        """Make the `run` of this moment raise as soon as it can; called on another thread."""
