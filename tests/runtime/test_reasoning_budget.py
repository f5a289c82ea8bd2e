"""Reasoning that ends when its budget is spent: laws of the tracker, and answers of an engine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mrs.errors import InvalidValueError
from mrs.model_repo.version import ModelVersion
from mrs.runtime.generation import (
    GenerationDelta,
    GenerationRequest,
    ReasoningBudget,
    SamplingParams,
)
from mrs.runtime.loading import load_served
from mrs.runtime.reasoning_budget import ReasoningTracker
from mrs.runtime.step import Step
from mrs.server.conversation.lark import LarkBuilder
from mrs.server.conversation.reasoning import FORMATS
from mrs.token_decoding import ANSWER_MARKS
from tests.runtime.fake_runner import PIECES as FAKE_PIECES
from tests.runtime.fake_runner import VOCAB, Driver, expected, running

OPENS, CLOSES = b"<t>", b"</t>"
# Marks in one token, spelled, cut anywhere, and in one token with their neighbours.
PIECES = (
    *(b"", b"<", b"/", b"t", b">", b"<t", b"</t>", b"<t>", b"</", b"t>"),
    *(b"a", b" ", b"\n", b"a</t", b">a", b"<t>a", b"</t>a", b"</t> <t>a", b" <", b"<t><"),
)
SPELLINGS = ((6,), (8, 9), (1, 2, 3, 4))
PROMPT = (5, 6, 7)
CLOSING = tuple(FAKE_PIECES.index(bytes([byte])) for byte in CLOSES)


def budget(tokens: int, *, opened: bool, closing: Sequence[int] = (6,)) -> ReasoningBudget:
    return ReasoningBudget(tokens, opened, OPENS.decode(), CLOSES.decode(), tuple(closing))


def followed(limit: ReasoningBudget, drawn: Sequence[int]) -> tuple[list[int], int]:
    """The answer where these tokens are drawn, and how many were forced in their place or after."""
    tracker = ReasoningTracker(limit, PIECES)
    taken: list[int] = []
    forced = 0
    for token in drawn:
        wanted = tracker.forced
        forced += wanted is not None
        taken.append(token if wanted is None else wanted)
        tracker.take(taken[-1])
    while (wanted := tracker.forced) is not None and forced <= len(drawn) + len(CLOSES):
        taken.append(wanted)
        tracker.take(wanted)
        forced += 1
    return taken, forced


def between_marks(tokens: Sequence[int], *, opened: bool) -> int:
    """How many tokens are wholly between marks at the start of the answer, read as one text."""
    text = b"".join(PIECES[token] for token in tokens)
    at, count = 0, 0
    while True:
        if not opened:
            at += len(text[at:]) - len(text[at:].lstrip())
            if not text.startswith(OPENS, at):
                return count
            at += len(OPENS)
        end = text.find(CLOSES, at)
        stop = len(text) if end < 0 else end
        position = 0
        for token in tokens:
            start, position = position, position + len(PIECES[token])
            count += at <= start < position <= stop
        if end < 0:
            return count
        at, opened = end + len(CLOSES), False


TOKENS = st.lists(st.integers(0, len(PIECES) - 1), max_size=24)
THINKS = st.builds(
    lambda head, rest: [*head, *rest], st.sampled_from([[7], [5, 4], [11, 15]]), TOKENS
)


@settings(max_examples=400, deadline=None)
@given(TOKENS | THINKS, st.integers(0, 8), st.booleans(), st.sampled_from(SPELLINGS))
def test_between_the_marks_are_never_more_tokens_than_the_budget(
    drawn: list[int], tokens: int, opened: bool, closing: tuple[int, ...]
) -> None:
    taken, _ = followed(budget(tokens, opened=opened, closing=closing), drawn)
    assert between_marks(taken, opened=opened) <= tokens


@settings(max_examples=400, deadline=None)
@given(TOKENS | THINKS, st.integers(0, 8), st.booleans(), st.sampled_from(SPELLINGS))
def test_what_is_within_its_budget_is_let_be(
    drawn: list[int], spare: int, opened: bool, closing: tuple[int, ...]
) -> None:
    taken, forced = followed(budget(len(drawn) + 1 + spare, opened=opened, closing=closing), drawn)
    assert (taken, forced) == (drawn, 0)


@settings(max_examples=200, deadline=None)
@given(TOKENS.filter(lambda drawn: bool(drawn)), st.sampled_from(SPELLINGS))
def test_an_answer_that_does_not_begin_with_the_mark_has_no_reasoning(
    drawn: list[int], closing: tuple[int, ...]
) -> None:
    drawn = [10, *drawn]
    assert followed(budget(0, opened=False, closing=closing), drawn) == (drawn, 0)


@pytest.mark.parametrize("closing", SPELLINGS)
@pytest.mark.parametrize("opened", [True, False])
def test_the_mark_follows_the_last_token_of_the_budget(
    closing: tuple[int, ...], opened: bool
) -> None:
    head = [] if opened else [7]
    drawn = [*head, *[10] * 9]
    taken, forced = followed(budget(3, opened=opened, closing=closing), drawn)
    assert taken == [*head, 10, 10, 10, *closing, *[10] * (6 - len(closing))]
    assert forced == len(closing)


def test_of_a_mark_that_has_begun_the_rest_follows() -> None:
    taken, forced = followed(budget(3, opened=True, closing=(1, 2, 3, 4)), [10, 1, 2, 10, 10, 10])
    assert (taken, forced) == ([10, 1, 2, 3, 4, 10], 2)


def test_no_reasoning_at_all_is_a_budget_too() -> None:
    assert followed(budget(0, opened=True), [10, 10]) == ([6, 10], 1)


def test_reasoning_that_begins_again_has_what_is_left() -> None:
    drawn = [7, 10, 10, 6, 11, 7, 10, 10, 10]
    assert followed(budget(3, opened=False), drawn)[0] == [7, 10, 10, 6, 11, 7, 10, 6, 10]


def test_a_mark_that_its_tokens_do_not_spell_is_written_once() -> None:
    assert followed(budget(1, opened=True, closing=(0, 2)), [10] * 5) == ([10, 0, 2, 10, 10], 2)


def test_the_marks_of_all_formats_are_bytes_of_the_answer() -> None:
    for known in FORMATS:
        assert known.closes in ANSWER_MARKS
        assert any(known.opens.startswith(mark) for mark in ANSWER_MARKS)


# --- the engine -----------------------------------------------------------------------------------


def test_the_answer_goes_on_behind_the_mark() -> None:
    with running(Driver()) as driver:
        limit = budget(4, opened=True, closing=CLOSING)
        tokens = driver.tokens(driver.submit(PROMPT, max_tokens=20, reasoning_budget=limit))
    assert tokens[:8] == [*expected(PROMPT, 4), *CLOSING]
    assert tokens[8:] == expected((*PROMPT, *tokens[:8]), 12)


def test_reasoning_that_the_answer_begins_is_closed() -> None:
    opening = [FAKE_PIECES.index(bytes([byte])) for byte in OPENS]

    def begin(step: Step, logits: NDArray[np.float32]) -> None:
        said = [len(row.sequence.output_ids) for row in step.active if row.sequence is not None]
        if said and said[0] < len(opening):
            logits[:, opening[said[0]]] = 99.0

    with running(Driver()) as driver:
        driver.runner.on_logits = begin
        limit = budget(2, opened=False, closing=CLOSING)
        tokens = driver.tokens(driver.submit(PROMPT, max_tokens=14, reasoning_budget=limit))
    assert tokens[:3] == opening
    assert tokens[5:9] == list(CLOSING)
    assert tokens[9:] == expected((*PROMPT, *tokens[:9]), 5)


def test_choices_have_a_budget_each() -> None:
    with running(Driver()) as driver:
        limit = budget(2, opened=True, closing=CLOSING)
        ticket = driver.submit(PROMPT, n=2, max_tokens=8, reasoning_budget=limit)
        answers = [driver.tokens(ticket, index) for index in range(2)]
    assert [answer[2:6] for answer in answers] == [list(CLOSING)] * 2


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logprobs_tell_what_the_model_thought_of_the_mark(temperature: float) -> None:
    with running(Driver()) as driver:
        limit = budget(1, opened=True, closing=CLOSING)
        ticket = driver.submit(
            PROMPT,
            max_tokens=3,
            reasoning_budget=limit,
            logprobs=0,
            temperature=temperature,
            seed=1,
        )
        told = [found for delta in driver.finish(ticket) for found in delta.logprobs]
    assert [found.token for found in told] == [*expected(PROMPT, 1), *CLOSING[:2]]
    # The fake model gives its own token 50 and all others 0.
    assert [found.logprob for found in told] == pytest.approx([0.0, -50.0, -50.0])


@pytest.mark.parametrize(
    "wrong",
    [
        budget(-1, opened=True),
        budget(1, opened=True, closing=()),
        budget(1, opened=True, closing=(VOCAB,)),
    ],
    ids=["negative", "no-mark", "unknown-token"],
)
def test_a_budget_that_cannot_be_kept_is_refused(wrong: ReasoningBudget) -> None:
    with running(Driver()) as driver, pytest.raises(InvalidValueError):
        driver.submit(PROMPT, reasoning_budget=wrong)


@pytest.mark.parametrize("temperature", [0.0, 1.0, 3.0])
def test_within_a_grammar_the_rest_matches_it(tiny: ModelVersion, temperature: float) -> None:
    model = load_served(tiny, max_seqs=2, threads=1)
    try:
        lark = LarkBuilder({})
        grammar = lark.grammar(f"{lark.text_up_to('</think>')} {lark.rule('/[0-9]{3}/')}")
        closing = tuple(model.tokenizer.encode("</think>"))
        limit = ReasoningBudget(5, True, "<think>", "</think>", closing)
        sampling = SamplingParams(
            temperature, seed=1, max_tokens=60, grammar=grammar, reasoning_budget=limit
        )
        request = GenerationRequest((3, 40, 5), sampling)

        async def ask() -> list[GenerationDelta]:
            await model.engine.prepare(request)
            return [delta async for deltas in model.engine.submit(request) for delta in deltas]

        deltas = asyncio.run(asyncio.wait_for(ask(), 60))
    finally:
        model.close()
    tokens = [token for delta in deltas for token in delta.token_ids]
    # A character of several tokens that had begun is finished first: the grammar is one of text.
    begins = range(5, 5 + 4)
    assert closing in [tuple(tokens[begin : begin + len(closing)]) for begin in begins]
    _, mark, number = "".join(delta.text for delta in deltas).partition("</think>")
    assert mark
    assert len(number) == 3
    assert number.isdecimal()
