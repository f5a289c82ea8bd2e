from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrs.errors import InvalidValueError, RequestError
from mrs.runtime.generation import DryParams, GenerationRequest, SamplingParams
from mrs.server.errors import UnsupportedFieldError
from mrs.server.openai.chat_request import parse_chat_request, prepared_conversation
from mrs.server.openai.schemas import ChatCompletionRequest
from mrs.server.openai.unsupported import UNSUPPORTED_FIELDS
from tests.server.fake_engine import FakeEncoder, FakeEngine, served

USER = {"role": "user", "content": "hi"}


def convert(**fields: Any) -> GenerationRequest:
    model = served(FakeEngine())
    body = json.dumps({"messages": [USER], **fields}).encode()
    return prepared_conversation(parse_chat_request(body), model).generation


def sampling(**fields: Any) -> SamplingParams:
    return convert(**fields).sampling


def test_the_least_request_samples_freely_once() -> None:
    assert convert() == GenerationRequest((ord("h"), ord("i")), SamplingParams(), 1)


@pytest.mark.parametrize(
    "bias",
    [
        {"five": 1},
        {"-1": 1},
        {"5.0": 1},
        {"5": 101},
        {"5": "1"},
        {"5": None},
        {"": 1},
        [5],
        {"²": 1},
    ],
    ids=str,
)
def test_a_bias_is_between_token_ids_and_numbers(bias: Any) -> None:
    with pytest.raises(RequestError) as caught:
        sampling(logit_bias=bias)
    assert (caught.value.param or "").startswith("logit_bias")


def test_null_is_absent_for_every_field() -> None:
    names = (
        "model max_tokens max_completion_tokens temperature top_p top_k seed stop n ignore_eos "
        "stream stream_options service_tier user metadata tools response_format logprobs "
        "min_p frequency_penalty presence_penalty repetition_penalty logit_bias dry_multiplier "
        "dry_base dry_allowed_length dry_sequence_breakers typical_p top_n_sigma xtc_probability "
        "xtc_threshold min_tokens stop_token_ids"
    )
    assert convert(**dict.fromkeys(names.split())) == convert()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"temperature": 0}, SamplingParams(temperature=0.0)),
        ({"temperature": 2}, SamplingParams(temperature=2.0)),
        ({"top_p": 0.1}, SamplingParams(top_p=0.1)),
        ({"top_p": 1}, SamplingParams(top_p=1.0)),
        ({"top_k": 1}, SamplingParams(top_k=1)),
        ({"top_k": 999}, SamplingParams(top_k=999)),
        ({"top_k": 0}, SamplingParams()),
        ({"top_k": -1}, SamplingParams()),
        ({"top_k": 1000}, SamplingParams()),
        ({"top_k": 10**30}, SamplingParams()),
        ({"min_p": 0.05}, SamplingParams(min_p=0.05)),
        ({"min_p": 0}, SamplingParams()),
        ({"frequency_penalty": -2}, SamplingParams(frequency_penalty=-2.0)),
        ({"presence_penalty": 0.5}, SamplingParams(presence_penalty=0.5)),
        ({"repetition_penalty": 1.1}, SamplingParams(repetition_penalty=1.1)),
        ({"logit_bias": {"5": 1.5, "0": -100}}, SamplingParams(logit_bias=((5, 1.5), (0, -100.0)))),
        ({"logit_bias": {}}, SamplingParams()),
        ({"dry_multiplier": 0, "dry_base": 2}, SamplingParams()),
        ({"dry_multiplier": 0.8}, SamplingParams(dry=DryParams(0.8))),
        (
            {
                "dry_multiplier": 0.8,
                "dry_base": 2,
                "dry_allowed_length": 3,
                "dry_sequence_breakers": ["The end"],
            },
            SamplingParams(dry=DryParams(0.8, 2.0, 3, ("The end",))),
        ),
        ({"typical_p": 0.9}, SamplingParams(typical_p=0.9)),
        ({"top_n_sigma": 1}, SamplingParams(top_n_sigma=1.0)),
        ({"top_n_sigma": 0}, SamplingParams()),
        (
            {"xtc_probability": 0.5, "xtc_threshold": 0.2},
            SamplingParams(xtc_probability=0.5, xtc_threshold=0.2),
        ),
        ({"min_tokens": 4}, SamplingParams(min_tokens=4)),
        ({"logprobs": True}, SamplingParams(logprobs=0)),
        ({"logprobs": True, "top_logprobs": 5}, SamplingParams(logprobs=5)),
        ({"logprobs": False}, SamplingParams()),
        ({"top_logprobs": 0}, SamplingParams()),
        ({"stop_token_ids": [7, 8]}, SamplingParams(stop_token_ids=(7, 8))),
        ({"seed": 0}, SamplingParams(seed=0)),
        ({"seed": -(2**63)}, SamplingParams(seed=-(2**63))),
        ({"seed": 2**63 - 1}, SamplingParams(seed=2**63 - 1)),
        ({"max_tokens": 1}, SamplingParams(max_tokens=1)),
        ({"max_completion_tokens": 7}, SamplingParams(max_tokens=7)),
        ({"max_tokens": 7, "max_completion_tokens": 7}, SamplingParams(max_tokens=7)),
        ({"max_tokens": 7, "max_completion_tokens": None}, SamplingParams(max_tokens=7)),
        ({"stop": "\n"}, SamplingParams(stop=("\n",))),
        ({"stop": ["a", "b"]}, SamplingParams(stop=("a", "b"))),
        ({"stop": []}, SamplingParams()),
        ({"stop": ["a"] * 16}, SamplingParams(stop=("a",) * 16)),
        ({"ignore_eos": True}, SamplingParams(ignore_eos=True)),
    ],
)
def test_sampling_fields_reach_the_engine(fields: dict[str, Any], expected: SamplingParams) -> None:
    assert sampling(**fields) == expected


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"min_p": 1.1}, "min_p"),
        ({"frequency_penalty": 2.5}, "frequency_penalty"),
        ({"presence_penalty": "1"}, "presence_penalty"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"repetition_penalty": 5e-324}, "repetition_penalty"),
        ({"dry_multiplier": -1}, "dry_multiplier"),
        ({"dry_base": 0.5}, "dry_base"),
        ({"dry_allowed_length": 0}, "dry_allowed_length"),
        ({"typical_p": 0}, "typical_p"),
        ({"top_n_sigma": -1}, "top_n_sigma"),
        ({"xtc_probability": 2}, "xtc_probability"),
        ({"xtc_threshold": -1}, "xtc_threshold"),
        ({"min_tokens": -1}, "min_tokens"),
        ({"stop_token_ids": 7}, "stop_token_ids"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logprobs": 1}, "logprobs"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": "1"}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_k": 1.5}, "top_k"),
        ({"seed": 2**63}, "seed"),
        ({"seed": -(2**63) - 1}, "seed"),
        ({"seed": 1.0}, "seed"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ({"max_tokens": 1, "max_completion_tokens": 2}, "max_completion_tokens"),
        ({"stop": ""}, "stop"),
        ({"stop": ["a", ""]}, "stop[1]"),
        ({"stop": ["a"] * 17}, "stop"),
        ({"stop": 5}, "stop"),
        ({"stop": [None]}, "stop[0]"),
        ({"n": 0}, "n"),
        ({"n": 17}, "n"),
        ({"n": True}, "n"),
        ({"stream": "true"}, "stream"),
        ({"stream_options": True}, "stream_options"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": 5}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [{}]}, "messages[0].role"),
        ({"messages": [{"role": "ipython", "content": "x"}]}, "messages[0].role"),
        ({"messages": [USER, {"role": "user", "content": 5}]}, "messages[1].content"),
        ({"messages": [{"role": "user", "content": {}}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [5]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"text": 5}]}]}, "messages[0].content[0].text"),
        ({"model": 5}, "model"),
        ({"mirostat": False}, "mirostat"),
        ({"mirostat": 2.0}, "mirostat"),
        ({"add_generation_prompt": False}, "add_generation_prompt"),
        (
            {
                "add_generation_prompt": True,
                "continue_final_message": True,
                "messages": [{"role": "assistant", "content": "a"}],
            },
            "add_generation_prompt",
        ),
    ],
)
def test_what_may_not_be_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        convert(**fields)
    assert caught.value.status == 400
    assert caught.value.param == param


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "video_url", "file"])
def test_media_are_refused(kind: str) -> None:
    parts = [{"type": "text", "text": "what is this?"}, {"type": kind, kind: {"url": "x"}}]
    with pytest.raises(UnsupportedFieldError, match=kind) as caught:
        convert(messages=[{"role": "user", "content": parts}])
    assert caught.value.param == "messages[0].content[1].type"


def test_a_prompt_that_renders_to_nothing_is_refused() -> None:
    with pytest.raises(InvalidValueError) as caught:
        convert(messages=[{"role": "user", "content": ""}])
    assert caught.value.param == "messages"


def test_the_template_gets_the_whole_conversation() -> None:
    encoder = FakeEncoder()
    model = served(FakeEngine(), encoder)
    messages = [{"role": "system", "content": "s"}, USER, {"role": "assistant", "content": "a"}]
    body = json.dumps({"messages": messages}).encode()
    prepared_conversation(parse_chat_request(body), model)
    assert encoder.conversations == [messages]


def test_messages_that_are_a_string_are_one_turn_of_the_user() -> None:
    assert convert(messages="hi") == convert()


TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
NAMED = {"type": "function", "function": {"name": "f"}}
GRAMMAR = {"type": "regex", "value": "a"}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools[0]"),
        ({"tools": [{"type": "function"}]}, "tools[0]"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        ({"tools": [TOOL, TOOL]}, "tools[1].function.name"),
        ({"tools": [TOOL], "functions": [{"name": "g"}]}, "functions"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": NAMED}, "tool_choice"),
        ({"tool_choice": "always", "tools": [TOOL]}, "tool_choice"),
        ({"tool_choice": {"type": "function", "name": "g"}, "tools": [TOOL]}, "tool_choice"),
        (
            {"tool_choice": {"type": "allowed_tools", "tools": []}, "tools": [TOOL]},
            "tool_choice.tools",
        ),
        ({"tool_choice": 5, "tools": [TOOL]}, "tool_choice"),
        ({"function_call": {"name": "f"}}, "function_call"),
        ({"response_format": {"type": "hiccup"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"grammar": {"type": "regexp", "value": "a"}}, "grammar.type"),
        (
            {
                "grammar": {"type": "regex", "value": "a"},
                "response_format": {"type": "json_object"},
            },
            "grammar",
        ),
        ({"reasoning_effort": "much"}, "reasoning_effort"),
        ({"reasoning_effort": "off", "enable_thinking": True}, "enable_thinking"),
        ({"reasoning_effort": "low", "enable_thinking": False}, "enable_thinking"),
        (
            {"enable_thinking": True, "chat_template_kwargs": {"enable_thinking": False}},
            "chat_template_kwargs.enable_thinking",
        ),
        ({"chat_template_kwargs": {"enable_thinking": 1}}, "chat_template_kwargs.enable_thinking"),
        ({"chat_template_kwargs": {"tokenize": True}}, "chat_template_kwargs.tokenize"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages"),
        ({"chat_template_kwargs": {"no_such": 1}}, "chat_template_kwargs.no_such"),
        ({"verbosity": "low"}, "verbosity"),
        ({"continue_final_message": True}, "continue_final_message"),
        ({"messages": [{**USER, "prefix": True}]}, "messages[0].prefix"),
        (
            {"messages": [{"role": "assistant", "content": "a", "prefix": True}, USER]},
            "messages[0].prefix",
        ),
        (
            {
                "messages": [
                    {"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]},
                ],
                "continue_final_message": True,
            },
            "continue_final_message",
        ),
        ({"store": True}, "store"),
        ({"metadata": {"a": 1}}, "metadata.a"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        convert(**fields)
    assert (caught.value.status, caught.value.param) == (400, param)


@pytest.mark.parametrize(
    ("parameters", "path"),
    [
        ({"type": "string"}, "type"),
        ({"type": "object", "properties": []}, "properties"),
        ({"properties": {"a": {"type": "hiccup"}}}, "properties.a.type"),
        ({"properties": {"a": {"items": 5}}}, "properties.a.items"),
        ({"properties": {"a": {"anyOf": [{}, "x"]}}}, "properties.a.anyOf[1]"),
        ({"properties": {"a": {"enum": []}}}, "properties.a.enum"),
        ({"required": "a"}, "required"),
        ({"required": [1]}, "required"),
    ],
)
def test_a_schema_that_is_none_is_refused_with_its_tool_and_place(
    parameters: dict[str, Any], path: str
) -> None:
    good = {"type": "function", "function": {"name": "good"}}
    bad = {"type": "function", "function": {"name": "bad", "parameters": parameters}}
    with pytest.raises(InvalidValueError, match="'bad'") as caught:
        convert(tools=[good, bad])
    assert caught.value.param == f"tools[1].function.parameters.{path}"


def test_truncation_reaches_the_engine() -> None:
    assert convert(truncate_sequence=True).truncate
    assert not convert(truncate_sequence=False).truncate


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": []},
        {"tool_choice": "none"},
        {"tool_choice": "auto"},
        {"tools": [TOOL], "tool_choice": "none"},
        {"functions": []},
        {"response_format": {"type": "text"}},
        {"reasoning_effort": "none"},
        {"enable_thinking": False},
        {"parallel_tool_calls": False},
        {"metadata": {"a": "b"}},
        {"user": "u"},
        {"store": False},
        {"verbosity": "medium"},
        {"prediction": {"type": "content", "content": "x"}},
        {"truncate_sequence": False},
        {"chat_template_kwargs": {}},
    ],
    ids=str,
)
def test_what_changes_nothing_here_passes(fields: dict[str, Any]) -> None:
    assert convert(**fields) == convert()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_NAMES = st.sampled_from(sorted({*ChatCompletionRequest.model_fields, *UNSUPPORTED_FIELDS, "x"}))


@given(st.dictionaries(_NAMES, _JSON) | _JSON)
def test_any_json_is_answered_or_refused_as_the_clients_fault(value: Any) -> None:
    model = served(FakeEngine())
    try:
        request = parse_chat_request(json.dumps(value).encode())
        prepared_conversation(request, model)
    except RequestError as error:
        assert 400 <= error.status < 500
