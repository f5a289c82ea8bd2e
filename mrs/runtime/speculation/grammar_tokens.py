"""Guesses by grammar: what must come next, as the model would cut it."""

from __future__ import annotations

from collections.abc import Sequence as Collection

from mrs.runtime.grammar.constraint import GrammarConstraint
from mrs.runtime.speculation.proposer import Wish


class GrammarTokens:
    """A `mrs.runtime.speculation.proposer.Proposer` of what a grammar forces.

    The same text could be cut otherwise, so that even these tokens are guesses: they are not forced
    upon the model, and an answer stays the one that it would have been.
    """

    def propose(self, wishes: Collection[Wish]) -> list[list[int]]:
        """Guesses for each wish; none where there is no grammar."""
        return [_forced(wish.choice.grammar, wish.most) for wish in wishes]


def _forced(grammar: GrammarConstraint | None, most: int) -> list[int]:
    return [] if grammar is None else list(grammar.matcher.forced_tokens()[:most])
