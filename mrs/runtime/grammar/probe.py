"""A look at what would happen: a copy of a matcher, used at once and thrown away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mrs.runtime.grammar.token_mask import Bits, fill_mask

if TYPE_CHECKING:
    import llguidance


class Probe:
    """A state of a grammar.

    Args:
        matcher: llguidance's; it belongs to this object from now on.
        mask_bytes: size of a mask.
        end: an end of sequence.
    """

    def __init__(self, matcher: llguidance.LLMatcher, mask_bytes: int, end: int) -> None:
        self._matcher = matcher
        self._mask_bytes = mask_bytes
        self._end = end

    def copy(self) -> Probe:
        """Another one in the same state."""
        return Probe(self._matcher.deep_copy(), self._mask_bytes, self._end)

    def mask(self) -> Bits:
        """The tokens that may come next; none where the library gives up."""
        mask = fill_mask(self._matcher, self._mask_bytes)
        if self._matcher.is_error():
            mask[:] = 0
        return mask

    def take(self, token: int) -> bool:
        """Go on with a token; whether that is allowed."""
        return self._matcher.consume_token(token)

    @property
    def accepting(self) -> bool:
        """What is there is whole."""
        return self._matcher.is_accepting()

    def completed_by(self, tokens: Sequence[int]) -> bool:
        """Whether what is there is whole after these tokens."""
        if not tokens:
            return self.accepting
        return self._matcher.validate_tokens([*tokens, self._end]) == len(tokens) + 1
