"""One prompt on its way to one answer."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from mrs.runtime.generation import FinishReason, SamplingParams

LEAST_TOGETHER = 2
"""Tokens of a prompt that are computed together, if it has as many.

Attention rounds otherwise where a step is one token wide, and in all wider ones alike; 8-bit
activations make a tenth of a nat of the last digit. So a prompt's logits are the same to the last
bit, however it is divided and whatever of it was in the cache.
"""

_ids = itertools.count()


@dataclass(eq=False)
class Sequence:
    """A prompt and the tokens drawn for it so far.

    Attributes:
        prompt_ids: the encoded prompt.
        sampling: how to draw.
        index: which of the request's choices it is.
        max_length: most tokens of prompt and answer together.
        id: unique in this process, ascending by creation.
        arrival: when the scheduler got it; larger is later.
        slot: its place in the KV cache, or None while it waits.
        num_computed: its tokens that are in the cache.
        num_cached: its first tokens that were in the cache before it came.
        num_dropped: tokens of the prompt's beginning that were left out before it came.
        furthest: the most of its tokens that were ever in the cache; it may have lost them since.
        num_scored: its first positions whose logits have told how likely the prompt is.
        salt: of the cached prefixes that it may share.
        output_ids: tokens drawn.
        guesses: tokens that may come next; the next step tells.
        finish_reason: why it ended, or None.
    """

    prompt_ids: tuple[int, ...]
    sampling: SamplingParams
    index: int
    max_length: int
    id: int = field(default_factory=lambda: next(_ids))
    slot: int | None = None
    num_computed: int = 0
    num_cached: int = 0
    num_dropped: int = 0
    furthest: int = 0
    num_scored: int = 0
    arrival: int = 0
    salt: str = ""
    output_ids: list[int] = field(default_factory=list)
    guesses: tuple[int, ...] = ()
    finish_reason: FinishReason | None = None

    @property
    def length(self) -> int:
        """Tokens of prompt and answer so far."""
        return len(self.prompt_ids) + len(self.output_ids)

    @property
    def longest(self) -> int:
        """Tokens of prompt and answer when it ends for being long enough."""
        wanted = self.sampling.max_tokens
        if wanted is None:
            return self.max_length
        return min(self.max_length, len(self.prompt_ids) + wanted)

    @property
    def reusable(self) -> int:
        """So many first tokens need not be computed by itself: of all others, logits are wanted.

        The last two tokens are never left to the cache, see `LEAST_TOGETHER`.
        """
        most = max(0, self.length - LEAST_TOGETHER)
        if self.sampling.prompt_logprobs is not None and not self.output_ids:
            return min(self.num_scored, most)
        return most

    @property
    def is_prefilling(self) -> bool:
        """More than its newest token is missing from the cache."""
        return self.num_computed < self.length - 1 or not self.output_ids

    @property
    def is_finished(self) -> bool:
        """It has ended."""
        return self.finish_reason is not None

    def tokens(self, start: int, stop: int) -> list[int]:
        """Tokens ``start:stop`` of prompt and answer, and of the guesses behind these."""
        prompt, length = len(self.prompt_ids), self.length
        head = self.prompt_ids[start:stop] if start < prompt else ()
        tail = self.output_ids[max(0, start - prompt) : max(0, stop - prompt)]
        if stop <= length:
            return [*head, *tail]
        return [*head, *tail, *self.guesses[max(0, start - length) : stop - length]]
