"""From a step's logits to the next tokens of its sequences.

The order, for each row: the model's own log probabilities, where they are asked for; a grammar's
mask; penalties, bias and bans; the filters; the draw, in whose place a token comes where reasoning
has to end. Nothing that a neighbour does is seen.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mrs.runtime.generation import GenerationDelta
from mrs.runtime.grammar.constraint import GrammarConstraint
from mrs.runtime.sampling.candidates import Candidates
from mrs.runtime.sampling.heads import Head, find_heads
from mrs.runtime.sampling.logprobs import RawLogprobs
from mrs.runtime.ticket import Choice

_log = logging.getLogger(__name__)


def draw_tokens(
    rows: Sequence[tuple[Choice, NDArray[np.float32]]],
) -> list[GenerationDelta | Exception]:
    """Draw the next tokens of each choice from its logits, which are changed.

    The logits are ``[1 + guesses, vocab]``: of the sequence as it is, and with one more of its
    guesses each. Tokens are drawn for as long as they are the ones that were guessed.

    Returns:
        one result for each row: what was added to the answer, or what went wrong with it. A row
        that fails is no trouble for the others.
    """
    found = _look_at(rows)
    return [
        _draw_row(choice, logits, *seen) for (choice, logits), seen in zip(rows, found, strict=True)
    ]


_Seen = tuple[Candidates | None, Head | None]


def _look_at(rows: Sequence[tuple[Choice, NDArray[np.float32]]]) -> list[_Seen]:
    """The candidates and heads of all rows that nothing but their sampler looks at."""
    seen: list[_Seen] = [(None, None)] * len(rows)
    try:
        wanted = {
            number: head_wanted
            for number, (choice, logits) in enumerate(rows)
            if _draws_plainly(choice)
            and (head_wanted := choice.sampler.head_wanted(logits[0])) is not None
        }
        heads = find_heads(list(wanted.values()))
        for (number, (candidates, _)), head in zip(wanted.items(), heads, strict=True):
            seen[number] = candidates, head
    except Exception:
        _log.exception("Looking at a batch failed; each row looks for itself.")
    return seen


def _draws_plainly(choice: Choice) -> bool:
    """Whether nothing but the sampler looks at the logits."""
    sampling = choice.sequence.sampling
    return (
        choice.grammar is None
        and choice.reasoning is None
        and sampling.logprobs is None
        and not sampling.cumulative_logprob
    )


def _draw_row(
    choice: Choice, logits: NDArray[np.float32], known: Candidates | None, head: Head | None
) -> GenerationDelta | Exception:
    guesses = choice.sequence.guesses
    try:
        delta = _draw(choice, logits[0], known, head)
        if not guesses:
            return delta
        deltas = [delta]
        for guess, following in zip(guesses, logits[1:], strict=True):
            if deltas[-1].token_ids != (guess,) or deltas[-1].finish_reason is not None:
                break
            deltas.append(_draw(choice, following))
        return _joined(deltas)
    except Exception as error:
        _log.exception("Drawing a token failed.")
        return error


def _draw(
    choice: Choice,
    logits: NDArray[np.float32],
    known: Candidates | None = None,
    head: Head | None = None,
) -> GenerationDelta:
    """Draw one token from logits ``[vocab]``, of which ``known`` and ``head`` may be at hand."""
    sampling, sampler, grammar = choice.sequence.sampling, choice.sampler, choice.grammar
    raw = None
    forced = None if choice.reasoning is None else choice.reasoning.forced
    adjusts = sampler.adjusts or grammar is not None or forced is not None
    if sampling.logprobs is not None or sampling.cumulative_logprob:
        raw = RawLogprobs(logits, sampling.logprobs or 0, keep=adjusts)
    if grammar is not None:
        token = _draw_within(grammar, choice, logits, forced)
    elif forced is not None:
        token = sampler.sample(logits, settle=lambda _: forced)
    else:
        if raw is not None and not adjusts:
            known = raw.candidates
        token = sampler.sample(logits, known, head=head)
    if choice.reasoning is not None:
        choice.reasoning.take(token)
    whole = grammar is not None and grammar.complete
    return choice.answer.add(token, None if raw is None else raw.of(token), complete=whole)


def _joined(deltas: list[GenerationDelta]) -> GenerationDelta:
    """One delta of several that follow each other."""
    return replace(
        deltas[-1],
        text="".join(delta.text for delta in deltas),
        token_ids=tuple(token for delta in deltas for token in delta.token_ids),
        logprobs=tuple(found for delta in deltas for found in delta.logprobs),
    )


def _draw_within(
    grammar: GrammarConstraint, choice: Choice, logits: NDArray[np.float32], forced: int | None
) -> int:
    """Draw what the grammar allows; it is asked about a ``forced`` token as about a drawn one."""
    sequence = choice.sequence
    remaining = sequence.longest - sequence.length
    grammar.restrict(logits, len(sequence.output_ids))
    if forced is not None and not np.isfinite(logits[forced]):
        forced = None

    def settle(drawn: int) -> int:
        return grammar.settle(drawn if forced is None else forced, remaining)

    token = choice.sampler.sample(logits, settle=settle)
    grammar.accept(token)
    return token
