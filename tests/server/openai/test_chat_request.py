from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrs.errors import InvalidValueError, RequestError
from mrs.runtime.generation import DryParams, GenerationRequest, SamplingParams
from mrs.server.errors import UnsupportedFieldError
from mrs.server.openai.chat_request import generation_request, parse_chat_request
from mrs.server.openai.schemas import ChatCompletionRequest
from mrs.server.openai.unsupported import UNSUPPORTED_FIELDS
from tests.server.fake_engine import FakeEncoder, FakeEngine, served

USER = {"role": "user", "content": "hi"}


def convert(**fields: Any) -> GenerationRequest:
    model = served(FakeEngine())
    body = json.dumps({"messages": [USER], **fields}).encode()
    return generation_request(parse_chat_request(body), model)


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
        ({"messages": "hi"}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [{}]}, "messages[0].role"),
        ({"messages": [{"role": "function", "content": "x"}]}, "messages[0].role"),
        ({"messages": [USER, {"role": "user", "content": 5}]}, "messages[1].content"),
        ({"messages": [{"role": "user", "content": {}}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [5]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"text": 5}]}]}, "messages[0].content[0].text"),
        ({"model": 5}, "model"),
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
    generation_request(parse_chat_request(body), model)
    assert encoder.conversations == [messages]


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
        generation_request(request, model)
    except RequestError as error:
        assert 400 <= error.status < 500
