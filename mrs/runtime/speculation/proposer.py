"""Who guesses."""

from __future__ import annotations

from collections.abc import Sequence as Collection
from dataclasses import dataclass
from typing import Protocol

from mrs.runtime.sequence import Sequence
from mrs.runtime.ticket import Choice


@dataclass(frozen=True)
class Wish:
    """Guesses that would be of use.

    Attributes:
        choice: for whom.
        most: at most so many; at least 1.
    """

    choice: Choice
    most: int

    @property
    def sequence(self) -> Sequence:
        """The choice's."""
        return self.choice.sequence


class Proposer(Protocol):
    """Guesses how sequences go on. For the engine's thread."""

    def propose(self, wishes: Collection[Wish]) -> list[list[int]]:
        """Guesses for each wish, in order; fewer than it asks for, or none, are fine."""
