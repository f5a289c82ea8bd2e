"""Times and rates of an answer, with a clock that is set by hand."""

from __future__ import annotations

import pytest

from mrs.runtime.generation import FinishReason, GenerationDelta
from mrs.server.answer_times import AnswerTimes
from mrs.server.generation import Tally
from mrs.server.openai.usage import usage


def tally_of(prompt_tokens: int, *moments: float) -> Tally:
    """One that begins at the first moment, and gets tokens at each of the others."""
    clock = iter(moments)
    tally = Tally(prompt_tokens, choices=1)
    tally.times = AnswerTimes(lambda: next(clock))
    return tally


def delta(*tokens: int, reason: FinishReason | None = None) -> GenerationDelta:
    return GenerationDelta(0, "", tokens, reason)


def test_the_prompt_takes_until_the_first_token_and_the_answer_from_there_on() -> None:
    tally = tally_of(50, 100.0, 102.0, 102.5, 104.0)
    for tokens in ((7,), (7,), (7, 7, 7)):
        tally.count((delta(*tokens),))
    told = usage(tally)
    assert (told["total_prompt_time_sec"], told["total_completion_time_sec"]) == (2.0, 2.0)
    assert told["total_time_sec"] == 4.0
    assert told["avg_prompt_tok_per_sec"] == 25.0
    # The first token came with the prompt: four more in two seconds.
    assert told["avg_compl_tok_per_sec"] == 2.0
    assert told["avg_tok_per_sec"] == pytest.approx(55 / 4)


def test_one_token_has_no_rate_of_its_own() -> None:
    tally = tally_of(8, 1.0, 3.0)
    tally.count((delta(7, reason=FinishReason.LENGTH),))
    told = usage(tally)
    assert told["avg_prompt_tok_per_sec"] == 4.0
    assert told["total_completion_time_sec"] == told["avg_compl_tok_per_sec"] == 0.0


def test_a_clock_that_stands_still_divides_by_nothing() -> None:
    tally = tally_of(8, 1.0, 1.0)
    tally.count((delta(7, reason=FinishReason.LENGTH),))
    assert usage(tally)["avg_tok_per_sec"] == 0.0
