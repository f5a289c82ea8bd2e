"""Decides who gets guesses, and how many."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Collection
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from mrs.runtime.scheduler import any_length
from mrs.runtime.sequence import Sequence
from mrs.runtime.speculation.guess_length import GuessLength
from mrs.runtime.speculation.proposer import Proposer, Wish
from mrs.runtime.ticket import Choice

MOST_POSITIONS = 16
"""Of a step, padding included: a step of more costs more than right guesses save (measured)."""


@dataclass
class GuessCounts:
    """Counts since the start.

    Attributes:
        drafts: rows with guesses.
        draft_tokens: tokens that were guessed and checked.
        accepted_tokens: those of them that became part of an answer.
    """

    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0


class Speculator:
    """Puts guesses into sequences before a step for those who decode.

    Rows of a step are padded to the longest, so that guesses cost all rows something: the more
    sequences decode, the fewer there are, and among many there are none.

    Args:
        proposers: asked in order; the next one for whom the ones before had no guess.
        most: guesses of one sequence in one step.
        most_positions: of a step.
        can_cut: whether a row of the cache that has so many tokens can be cut to so many.
    """

    def __init__(
        self,
        proposers: Collection[Proposer],
        most: int,
        most_positions: int = MOST_POSITIONS,
        can_cut: Callable[[int, int], bool] = any_length,
    ) -> None:
        self.counts = GuessCounts()
        self._proposers = proposers
        self._most = most
        self._most_positions = most_positions
        self._can_cut = can_cut
        self._lengths: WeakKeyDictionary[Sequence, GuessLength] = WeakKeyDictionary()

    def guess(self, decoding: Collection[Choice]) -> None:
        """Guess for the sequences of the next step; earlier guesses are forgotten."""
        for choice in decoding:
            choice.sequence.guesses = ()
        if not decoding:
            return
        room = self._most_positions // len(decoding) - 1
        if room < 1:
            return
        wishes = [
            Wish(choice, most) for choice in decoding if (most := self._wanted(choice, room)) > 0
        ]
        for proposer in self._proposers:
            if not wishes:
                return
            for wish, tokens in zip(wishes, proposer.propose(wishes), strict=True):
                wish.sequence.guesses = _possible(wish, tokens)
            wishes = [wish for wish in wishes if not wish.sequence.guesses]

    def learn(self, sequence: Sequence, guessed: int, right: int) -> None:
        """So many of a sequence's guesses were right."""
        self.counts.drafts += 1
        self.counts.draft_tokens += guessed
        self.counts.accepted_tokens += right
        self._length(sequence).learn(guessed, right)

    def _wanted(self, choice: Choice, room: int) -> int:
        sequence = choice.sequence
        # One token is drawn beyond the last guess.
        most = min(sequence.longest - sequence.length - 1, room)
        # Where guesses are wrong, the cache is cut to the tokens that are there now.
        while most > 0 and not self._can_cut(sequence.length + most, sequence.length):
            most -= 1
        return min(most, self._length(sequence).take()) if most > 0 else 0

    def _length(self, sequence: Sequence) -> GuessLength:
        length = self._lengths.get(sequence)
        if length is None:
            length = self._lengths[sequence] = GuessLength(self._most)
        return length


def _possible(wish: Wish, tokens: list[int]) -> tuple[int, ...]:
    """Without what the grammar will not allow."""
    tokens = tokens[: wish.most]
    grammar = wish.choice.grammar
    if grammar is not None and tokens:
        tokens = tokens[: grammar.matcher.validate(tokens)]
    return tuple(tokens)
