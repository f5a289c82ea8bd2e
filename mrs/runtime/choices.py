"""From a request to what the engine keeps of each of its choices."""

from __future__ import annotations

from mrs.runtime.admission import EngineModel
from mrs.runtime.answer import Answer
from mrs.runtime.reasoning_budget import ReasoningTracker
from mrs.runtime.sampling import Sampler
from mrs.runtime.sequence import Sequence
from mrs.runtime.ticket import Choice, Ticket


def make_choices(ticket: Ticket, model: EngineModel) -> list[Choice]:
    """One choice for each answer that the ticket's request asks for."""
    return [_make_choice(ticket, model, index) for index in range(ticket.request.n)]


def _make_choice(ticket: Ticket, model: EngineModel, index: int) -> Choice:
    request = ticket.request
    sequence = Sequence(
        request.prompt_ids,
        request.sampling,
        index,
        model.capacity,
        salt=request.cache_salt,
        num_dropped=ticket.dropped,
    )
    grammar = model.constraint(request.sampling)
    # A grammar counts all bytes of the text, a space at its start too.
    detokenizer = model.new_detokenizer(request.continues or grammar is not None)
    answer = Answer(sequence, detokenizer, model.eos_token_ids)
    sampler = Sampler(
        request.sampling,
        index,
        prompt_ids=request.prompt_ids,
        eos_token_ids=sorted(model.eos_token_ids),
        pieces=model.token_pieces,
    )
    budget = request.sampling.reasoning_budget
    reasoning = None if budget is None else ReasoningTracker(budget, model.token_pieces)
    return Choice(ticket, sequence, sampler, answer, grammar, reasoning)
