"""Laws of masks, guesses and ways back, on grammars and answers drawn at random."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrs.runtime.generation import Grammar
from mrs.runtime.grammar import (
    GrammarStuckError,
    json_object_grammar,
    json_schema_grammar,
    lark_grammar,
    regex_grammar,
)
from mrs.runtime.grammar.compiler import GrammarCompiler
from mrs.runtime.grammar.token_mask import members
from mrs.runtime.grammar.workers import Workers
from tests.runtime.grammar.vocabularies import END, TOKENIZER, constrained, walk

GRAMMARS = [
    json_object_grammar(),
    json_schema_grammar({"type": "array", "items": {"enum": ["é", "name", 1, None]}}),
    json_schema_grammar({"type": "object", "properties": {"name": {"type": "string"}}}),
    regex_grammar("(ab|a)*true"),
    lark_grammar('start: "(" start ")" | NAME\nNAME: /[a-z]+/'),
]
seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(GRAMMARS), seeds)
def test_what_a_mask_allows_is_accepted(
    compiler: GrammarCompiler, grammar: Grammar, seed: int
) -> None:
    constraint = constrained(compiler, grammar)
    for token in walk(constraint, np.random.default_rng(seed), 12):
        for other in members(constraint.matcher.mask()).tolist():
            assert constraint.matcher.validate([other]) == 1, TOKENIZER.token_bytes(other)
        constraint.matcher.accept(token)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(GRAMMARS), seeds, st.integers(1, 6))
def test_a_way_back_restores_the_mask(
    compiler: GrammarCompiler, grammar: Grammar, seed: int, count: int
) -> None:
    matcher = constrained(compiler, grammar).matcher
    constraint = constrained(compiler, grammar)
    masks = [matcher.mask()]
    for token in walk(constraint, np.random.default_rng(seed), 8):
        constraint.matcher.accept(token)
        matcher.accept(token)
        masks.append(matcher.mask())
    back = min(count, len(masks) - 1)
    matcher.rollback(back)
    assert np.array_equal(matcher.mask(), masks[len(masks) - 1 - back])


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(GRAMMARS), seeds)
def test_forced_tokens_are_all_that_masks_allow(
    compiler: GrammarCompiler, grammar: Grammar, seed: int
) -> None:
    constraint = constrained(compiler, grammar)
    for token in walk(constraint, np.random.default_rng(seed), 10):
        forced = constraint.matcher.forced_tokens()
        for index, expected in enumerate(forced):
            assert members(constraint.matcher.mask()).tolist() == [expected]
            constraint.matcher.accept(expected)
            assert index < len(forced)
        if forced:
            constraint.matcher.rollback(len(forced))
        constraint.matcher.accept(token)


def test_forced_tokens_are_cut_as_the_model_cuts_them(compiler: GrammarCompiler) -> None:
    constraint = constrained(compiler, regex_grammar('name":[0-9]'))
    assert list(constraint.matcher.forced_tokens()) == TOKENIZER.encode('name":')


class Unfinished(Workers):
    """Workers that do what they are asked only when somebody waits for it."""

    def __init__(self) -> None:
        self.awaited = 0

    def submit(self, job: Callable[[], Any]) -> Future[Any]:
        workers = self

        class Lazy(Future[Any]):
            def result(self, timeout: float | None = None) -> Any:
                workers.awaited += 1
                return job()

        return Lazy()


def test_what_is_forced_is_known_before_the_mask(
    compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    matcher = constrained(compiler, regex_grammar('[a-z]name":[0-9]')).matcher
    workers = Unfinished()
    monkeypatch.setattr(matcher, "_workers", workers)
    assert matcher.forced_tokens() == ()
    matcher.accept(*TOKENIZER.encode("x"))
    forced = TOKENIZER.encode('name":')
    assert list(matcher.forced_tokens()) == forced
    assert matcher.validate(forced) == len(forced)
    assert not workers.awaited
    assert members(matcher.mask()).tolist() == forced[:1]
    assert workers.awaited == 1


def test_guesses_are_counted_up_to_the_first_that_is_wrong(compiler: GrammarCompiler) -> None:
    matcher = constrained(compiler, regex_grammar("xyz")).matcher
    guess = TOKENIZER.encode("xyy")
    assert matcher.validate(guess) == 2
    assert matcher.validate([]) == 0
    assert matcher.validate([*TOKENIZER.encode("xyz"), END]) == 4


def test_a_token_that_is_not_allowed_is_refused(compiler: GrammarCompiler) -> None:
    matcher = constrained(compiler, regex_grammar("xyz")).matcher
    with pytest.raises(GrammarStuckError):
        matcher.accept(*TOKENIZER.encode("a"))


def test_no_more_tokens_can_be_taken_back_than_there_were(compiler: GrammarCompiler) -> None:
    matcher = constrained(compiler, regex_grammar("xyz")).matcher
    matcher.accept(*TOKENIZER.encode("x"))
    with pytest.raises(GrammarStuckError):
        matcher.rollback(2)


def test_one_answer_that_fails_is_no_trouble_for_the_next(compiler: GrammarCompiler) -> None:
    grammar = regex_grammar("[p-q]z")
    with pytest.raises(GrammarStuckError):
        constrained(compiler, grammar).matcher.accept(*TOKENIZER.encode("a"))
    matcher = constrained(compiler, grammar).matcher
    matcher.accept(*TOKENIZER.encode("p"))
    assert members(matcher.mask()).tolist() == TOKENIZER.encode("z")
