"""The body of a text completion request to what the engine is asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mrs.errors import InvalidValueError, RequestError
from mrs.runtime.generation import Grammar, GrammarKind
from mrs.server.errors import UnsupportedFieldError
from mrs.server.openai.completion_request import (
    PreparedCompletion,
    parse_completion_request,
    prepare_completion,
)
from mrs.server.openai.completion_schemas import MAX_PROMPTS
from tests.server.fake_engine import FakeEncoder, FakeEngine, served


def prepared(begin: tuple[int, ...] = (), **fields: Any) -> PreparedCompletion:
    encoder = FakeEncoder()
    encoder.begin = begin
    request = parse_completion_request(json.dumps({"prompt": "hi", **fields}).encode())
    return prepare_completion(request, served(FakeEngine(), encoder))


def prompts(**fields: Any) -> list[tuple[int, ...]]:
    return [generation.prompt_ids for generation in prepared(**fields).generations]


HI = tuple(map(ord, "hi"))


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("hi", [HI]),
        (["hi", "a"], [HI, (97,)]),
        ([104, 105], [HI]),
        ([[104, 105], [97]], [HI, (97,)]),
        (["hi"], [HI]),
    ],
)
def test_prompts_of_all_forms_are_token_ids(prompt: Any, expected: list[tuple[int, ...]]) -> None:
    assert prompts(prompt=prompt) == expected


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        (None, "prompt"),
        (5, "prompt"),
        ({}, "prompt"),
        ("", "prompt"),
        ([], "prompt"),
        ([""], "prompt[0]"),
        (["a", ""], "prompt[1]"),
        ([[]], "prompt[0]"),
        ([[1], []], "prompt[1]"),
        ([1, "a"], "prompt[1]"),
        (["a", 1], "prompt[1]"),
        ([[1], "a"], "prompt[1]"),
        ([1.5], "prompt[0]"),
        ([True], "prompt[0]"),
        ([-1], "prompt[0]"),
        ([[1, None]], "prompt[0][1]"),
        (["a"] * (MAX_PROMPTS + 1), "prompt"),
    ],
)
def test_prompts_of_other_forms_are_refused(prompt: Any, param: str) -> None:
    with pytest.raises(RequestError) as caught:
        prepared(prompt=prompt)
    assert (caught.value.status, caught.value.param) == (400, param)


def test_a_text_begins_as_the_models_prompts_do_and_token_ids_as_they_are() -> None:
    assert prompts(begin=(1,)) == [(1, *HI)]
    assert prompts(begin=(1,), add_special_tokens=False) == [HI]
    assert prompts(begin=(1,), prompt=[104, 105]) == [HI]


def test_control_tokens_in_a_text_are_text_unless_asked_for() -> None:
    assert prompts(prompt="<eos>") == [tuple(map(ord, "<eos>"))]
    assert prompts(prompt="<eos>", parse_special=True) == [(0,)]


def test_answers_are_16_tokens_long_unless_more_are_asked_for() -> None:
    assert prepared().generations[0].sampling.max_tokens == 16
    assert prepared(max_tokens=5).generations[0].sampling.max_tokens == 5


def test_answers_go_on_with_the_prompt() -> None:
    assert all(generation.continues for generation in prepared(prompt=["a", "b"]).generations)


def test_fields_reach_the_engine() -> None:
    (generation,) = prepared(
        n=3, temperature=0.5, stop="x", cache_salt="s", truncate_sequence=True, ignore_eos=True
    ).generations
    assert (generation.n, generation.cache_salt, generation.truncate) == (3, "s", True)
    sampling = generation.sampling
    assert (sampling.temperature, sampling.stop, sampling.ignore_eos) == (0.5, ("x",), True)
    assert (sampling.logprobs, sampling.prompt_logprobs) == (None, None)


def test_logprobs_of_the_prompt_are_asked_for_where_it_is_echoed() -> None:
    sampling = prepared(logprobs=2).generations[0].sampling
    assert (sampling.logprobs, sampling.prompt_logprobs) == (2, None)
    sampling = prepared(logprobs=2, echo=True).generations[0].sampling
    assert (sampling.logprobs, sampling.prompt_logprobs) == (2, 2)
    assert prepared(echo=True).generations[0].sampling.prompt_logprobs is None


def test_the_best_are_chosen_of_more() -> None:
    made = prepared(best_of=5, n=2)
    assert (made.choices, made.returned, made.generations[0].n) == (5, 2, 5)
    assert made.generations[0].sampling.cumulative_logprob
    assert not prepared(best_of=2, n=2).generations[0].sampling.cumulative_logprob
    assert prepared(best_of=0).choices == 1


def test_a_suffix_makes_the_model_fill_in_the_middle() -> None:
    assert prompts(prompt="a", suffix="b") == [(1, 97, 2, 98, 3)]
    assert prompts(prompt="a", suffix="") == [(97,)]


@pytest.mark.parametrize(
    "fields",
    [
        {"grammar": {"type": "regex", "value": "a+"}},
        {"grammar": {"type": "lark", "value": 'start: "a"'}},
        {"grammar": {"type": "llguidance", "value": {"grammars": []}}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}},
        {"response_format": {"type": "json_object"}},
    ],
)
def test_a_form_is_a_grammar(fields: dict[str, Any]) -> None:
    assert isinstance(prepared(**fields).generations[0].sampling.grammar, Grammar)


def test_any_text_is_no_grammar() -> None:
    assert prepared(response_format={"type": "text"}).generations[0].sampling.grammar is None
    grammar = prepared(grammar={"type": "regex", "value": "a"}).generations[0].sampling.grammar
    assert grammar == Grammar(GrammarKind.REGEX, "a")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"best_of": 1, "n": 2}, "best_of"),
        ({"best_of": 2, "stream": True}, "best_of"),
        ({"best_of": 17}, "best_of"),
        ({"n": 0}, "n"),
        ({"logprobs": 21}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
        ({"prompt": [1], "suffix": "b"}, "suffix"),
        ({"suffix": "b", "echo": True, "logprobs": 1}, "suffix"),
        ({"logit_bias": {"foo": 0}}, "logit_bias.foo"),
        ({"grammar": {"type": "regex", "value": {}}}, "grammar"),
        ({"grammar": {"type": "ebnf", "value": "a"}}, "grammar.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"response_format": {"type": "hiccup"}}, "response_format.type"),
    ],
)
def test_values_that_cannot_be_are_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        prepared(**fields)
    assert (caught.value.status, caught.value.param) == (400, param)


def test_one_form_is_asked_for_at_a_time() -> None:
    both = {
        "grammar": {"type": "regex", "value": "a"},
        "response_format": {"type": "json_object"},
    }
    with pytest.raises(InvalidValueError):
        prepared(**both)


@pytest.mark.parametrize(
    "fields",
    [{"tools": [{"type": "function"}]}, {"tool_choice": "required"}, {"adapter": "x"}],
)
def test_what_text_completions_cannot_do_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedFieldError):
        prepared(**fields)


def test_what_asks_for_nothing_is_accepted() -> None:
    prepared(user="u", tools=[], tool_choice="auto", best_of=1, stream_options={}, future=1)
