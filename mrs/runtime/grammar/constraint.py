"""What drawing the tokens of one choice asks of its grammar."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mrs.runtime.generation import SamplingParams
from mrs.runtime.grammar.completion import CompletionPlanner
from mrs.runtime.grammar.matcher import GrammarMatcher
from mrs.runtime.grammar.token_mask import Bits, bits_of, keep_only
from mrs.runtime.grammar.vocabulary import GrammarVocabulary


class GrammarConstraint:
    """Holds the answer of one choice to its grammar. For the engine's thread.

    A token is drawn in three steps: `restrict` the logits, `settle` what was drawn, `accept` it.
    What ends an answer (ends of sequence and ``stop_token_ids``) may be drawn exactly where the
    grammar accepts; with ``ignore_eos`` and before ``min_tokens``, not even there, as long as the
    grammar can go on. Where it cannot, the answer is `complete` without any such token.

    Args:
        matcher: at the beginning of the grammar.
        planner: finishes answers before their limit.
        vocabulary: the model's.
        sampling: of the request.
        accepted: called for each token.

    Attributes:
        matcher: for guesses: `forced_tokens`, `validate`, `rollback`.
    """

    def __init__(
        self,
        matcher: GrammarMatcher,
        planner: CompletionPlanner,
        vocabulary: GrammarVocabulary,
        sampling: SamplingParams,
        *,
        accepted: Callable[[], None] = lambda: None,
    ) -> None:
        self.matcher = matcher
        self._planner = planner
        stops = {stop for stop in sampling.stop_token_ids if 0 <= stop < vocabulary.vocab_size}
        size = vocabulary.mask_bytes
        self._ends = bits_of({*vocabulary.eos_token_ids, *stops, vocabulary.end}, size)
        allowed = stops if sampling.ignore_eos else stops.union(vocabulary.eos_token_ids)
        self._allowed_ends = bits_of(allowed, size)
        self._ending = frozenset({*vocabulary.eos_token_ids, *stops})
        self._min_tokens = sampling.min_tokens
        self._accepted = accepted

    def restrict(self, logits: NDArray[np.float32], drawn: int) -> None:
        """Make impossible what may not come next.

        Args:
            logits: float32 ``[vocab]``, changed in place.
            drawn: tokens that were drawn before.

        Raises:
            GrammarStuckError: nothing may come.
        """
        keep_only(logits, self._possible(drawn))

    def settle(self, token: int, remaining: int) -> int:
        """The token to take: the one that was drawn, or one that still ends within the limit.

        Args:
            token: as it was drawn.
            remaining: tokens that may come, this one included.
        """
        if token in self._ending:
            return token
        return self._planner.settle(token, remaining)

    def accept(self, token: int) -> None:
        """Take the token; what ends the answer changes nothing.

        Raises:
            GrammarStuckError: it is not allowed.
        """
        if token not in self._ending:
            self.matcher.accept(token)
            self._accepted()

    @property
    def complete(self) -> bool:
        """The answer matches, and nothing can be added to it."""
        return self.matcher.stopped

    def _possible(self, drawn: int) -> Bits:
        mask = self.matcher.mask()
        plain = mask & ~self._ends
        if drawn >= self._min_tokens and self.matcher.accepting:
            plain = plain | self._allowed_ends
        # An end may be all that is left, or a stop token the only one that spells what must come.
        return plain if plain.any() else mask
