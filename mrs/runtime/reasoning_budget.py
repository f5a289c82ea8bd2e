"""Ends a model's reasoning when it has had its share of the answer.

The marks of reasoning are found as the bytes that the tokens stand for, because a vocabulary may
have a token for a mark or spell it. They count where the reader of answers takes them for such: at
the start of an answer, behind white space. What comes later is text, and no budget concerns it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from mrs.runtime.generation import ReasoningBudget

_SPACES = b" \t\r\n"


class _Place(Enum):
    START = auto()
    REASONING = auto()
    TEXT = auto()


class ReasoningTracker:
    """Follows one answer, and says which token has to come where the budget is spent.

    Between the marks there are never more tokens than the budget, as long as each `forced` token is
    taken; a grammar may put that off until a character of several tokens is whole. Tokens of a
    closing mark that had been begun when the budget was spent belong to it: the rest of the mark
    follows them. If an answer reasons several times at its start, the budget is that of all of it.

    Args:
        budget: of the request.
        pieces: bytes of each token, as the answer's text has them; what is not there has none.
    """

    def __init__(self, budget: ReasoningBudget, pieces: Sequence[bytes]) -> None:
        self._budget = budget
        self._pieces = pieces
        self._opens, self._closes = budget.opens.encode(), budget.closes.encode()
        self._place = _Place.REASONING if budget.opened else _Place.START
        # What is not decided yet: the start of an answer, or what may begin the closing mark.
        self._pending = b""
        self._spent = 0
        self._closing = 0  # So many tokens of the closing mark are the last ones.

    @property
    def forced(self) -> int | None:
        """The token that has to come next; None where any may."""
        if not self._reasons or self._spent < self._budget.tokens:
            return None
        return self._budget.closing_ids[self._closing]

    def take(self, token: int) -> None:
        """Follow the token that became part of the answer."""
        if self._place is _Place.TEXT:
            return
        piece = self._pieces[token] if token < len(self._pieces) else b""
        if self._reasons:
            self._spent += 1
            self._reason(token, piece)
        else:
            self._start(piece)
            # What stands behind the opening mark in the same token is reasoning already.
            self._spent += self._reasons and bool(self._pending)

    @property
    def _reasons(self) -> bool:
        return self._place is _Place.REASONING

    def _start(self, piece: bytes) -> None:
        self._pending = (self._pending + piece).lstrip(_SPACES)
        if self._pending.startswith(self._opens):
            inside = self._pending[len(self._opens) :]
            self._place, self._pending, self._closing = _Place.REASONING, b"", 0
            self._look_for_end(inside)
        elif not self._opens.startswith(self._pending):
            self._place = _Place.TEXT

    def _reason(self, token: int, piece: bytes) -> None:
        self._closing = written = self._begun_with(token)
        if self._look_for_end(piece):
            self._spent -= written
        elif written == len(self._budget.closing_ids):
            # The tokens of the mark do not spell it, and there is no other way to write it.
            self._spent -= written
            self._begin_again(b"")

    def _begun_with(self, token: int) -> int:
        """How many first tokens of the closing mark the last ones are, this one included."""
        ids = self._budget.closing_ids
        seen = (*ids[: self._closing], token)
        counts = range(len(seen), 0, -1)
        return next((count for count in counts if seen[-count:] == ids[:count]), 0)

    def _look_for_end(self, piece: bytes) -> bool:
        inside, found, after = (self._pending + piece).partition(self._closes)
        if found:
            self._begin_again(after)
        else:
            self._pending = inside[max(0, len(inside) - len(self._closes) + 1) :]
        return bool(found)

    def _begin_again(self, after: bytes) -> None:
        self._place, self._pending, self._closing = _Place.START, b"", 0
        self._start(after)
