"""An admitted request, and each of its choices on the way from tokens to text."""

from __future__ import annotations

from dataclasses import dataclass, field

from mrs.runtime.answer import Answer
from mrs.runtime.generation import (
    FinishReason,
    GenerationDelta,
    GenerationRequest,
    TokenLogprobs,
)
from mrs.runtime.grammar.constraint import GrammarConstraint
from mrs.runtime.reasoning_budget import ReasoningTracker
from mrs.runtime.sampling import Sampler
from mrs.runtime.sequence import Sequence


@dataclass(eq=False)
class Ticket:
    """One admitted request.

    Attributes:
        request: as it is answered: its prompt may have lost its beginning.
        listener: opaque to the engine; comes back with every delta.
        dropped: tokens of the prompt's beginning that were left out.
        sequences: one per choice.
    """

    request: GenerationRequest
    listener: object
    dropped: int = 0
    sequences: list[Sequence] = field(default_factory=list)


@dataclass(eq=False)
class Choice:
    """What the engine keeps of a sequence until it ends.

    Attributes:
        ticket: the request.
        sequence: its tokens.
        sampler: draws the next one.
        answer: makes text of them.
        grammar: what the answer must match, if anything.
        reasoning: ends its reasoning in time, if anything asks for that.
        prompt_logprobs: how likely the prompt is, as far as it is known and not told yet.
    """

    ticket: Ticket
    sequence: Sequence
    sampler: Sampler
    answer: Answer
    grammar: GrammarConstraint | None = None
    reasoning: ReasoningTracker | None = None
    prompt_logprobs: list[TokenLogprobs] = field(default_factory=list)

    def end(
        self, reason: FinishReason, error: Exception | None = None
    ) -> tuple[Ticket, GenerationDelta]:
        """End the sequence from outside its own answer; returns its last delta."""
        self.sequence.finish_reason = reason
        return self.ticket, GenerationDelta(self.sequence.index, "", (), reason, error)


Published = list[tuple[Ticket, GenerationDelta]]
