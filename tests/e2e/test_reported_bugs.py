"""What users of other servers have reported, tried on a real model and named by its symptom."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI

from tests.e2e.server_process import ServerProcess

HI: Any = [{"role": "user", "content": "Hi!"}]


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> OpenAI:
    return server.client()


def ask(client: OpenAI, **options: Any) -> Any:
    extra = {name: options.pop(name) for name in ("grammar", "stop_token_ids") if name in options}
    return client.chat.completions.create(
        **{"model": "default", "messages": HI, "extra_body": extra, "temperature": 0, **options}
    )


def test_a_character_of_several_tokens_is_replaced_in_the_stream(client: OpenAI) -> None:
    """llama.cpp#4446, TGI#131."""
    text = "歪😺가"
    grammar = {"type": "lark", "value": f"start: {json.dumps(text, ensure_ascii=False)}"}
    pieces = [
        choice.delta.content or ""
        for chunk in ask(client, grammar=grammar, stream=True)
        for choice in chunk.choices
    ]
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)
    assert ask(client, grammar=grammar).choices[0].message.content == text


def test_a_stop_string_cuts_differently_in_the_stream(client: OpenAI) -> None:
    """vllm#57052; mistral.rs lets a stop string of several tokens into the stream."""
    free = ask(client, max_tokens=30).choices[0].message.content
    stop = free[12:19]
    whole = ask(client, max_tokens=30, stop=stop).choices[0].message.content
    pieces = [
        choice.delta.content or ""
        for chunk in ask(client, max_tokens=30, stop=stop, stream=True)
        for choice in chunk.choices
    ]
    assert "".join(pieces) == whole == free[: free.index(stop)]


@pytest.mark.parametrize("endpoint", ["completions", "messages"])
def test_a_stop_string_cuts_at_some_endpoints_only(client: OpenAI, endpoint: str) -> None:
    """The same, at the endpoints that chat completions do not share their answers with."""
    field = {"completions": "stop", "messages": "stop_sequences"}[endpoint]

    def say(**options: Any) -> Any:
        asked = {"prompt": "One, two,"} if endpoint == "completions" else {"messages": HI}
        body = {"model": "default", "max_tokens": 24, "temperature": 0, **asked, **options}
        answer: Any = client.post(f"/{endpoint}", cast_to=object, body=body)
        part = (answer.get("choices") or answer.get("content"))[0]
        return part["text"], part.get("finish_reason") or answer["stop_reason"]

    free, _ = say()
    stop = free[12:19]
    assert say(**{field: [stop]})[0] == free[: free.index(stop)]


@pytest.mark.parametrize(
    "options",
    [
        {"logit_bias": {"99999999": 1}},
        {"stop_token_ids": [10**7]},
        {"grammar": {"type": "regex", "value": "("}},
        {"grammar": {"type": "lark", "value": 'start: / "x"'}},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "hiccup"}}}},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"pattern": "["}}}},
    ],
    ids=lambda options: json.dumps(options)[:40],
)
def test_a_bad_request_kills_the_others(client: OpenAI, options: dict[str, Any]) -> None:
    """vllm#5963, #17313, #54195; llama.cpp#19051: a grammar that does not compile was dropped."""
    beside = ask(client, max_tokens=12, stream=True)
    next(iter(beside))
    with pytest.raises(openai.BadRequestError):
        ask(client, max_tokens=4, **options)
    assert list(beside)[-1].choices[0].finish_reason in ("stop", "length")


def test_json_is_followed_by_spaces_up_to_the_limit(client: OpenAI) -> None:
    """ollama#2577, omlx#2990."""
    schema = {
        "type": "object",
        "properties": {"a": {"enum": [1, 2]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}
    [choice] = ask(client, max_tokens=100, response_format=wanted).choices
    assert choice.finish_reason == "stop"
    assert json.loads(choice.message.content)["a"] in (1, 2)
    assert len(choice.message.content) < 60


def test_a_property_that_is_named_twice_ends_in_spaces(client: OpenAI) -> None:
    """llguidance#265, vllm#30730: a name in ``properties`` that ``patternProperties`` matches."""
    schema = {
        "type": "object",
        "properties": {"score": {"type": "integer"}},
        "patternProperties": {"^score$": {"maximum": 9, "minimum": 3}},
        "required": ["score"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    [choice] = ask(client, max_tokens=60, response_format=wanted).choices
    assert choice.finish_reason == "stop"
    assert 3 <= json.loads(choice.message.content)["score"] <= 9


def test_a_list_of_schemas_for_items_kills_the_engine(client: OpenAI) -> None:
    """vllm#17623: the form that JSON Schema dropped in 2020."""
    schema = {"type": "array", "items": [{"enum": ["x"]}], "minItems": 1, "maxItems": 1}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    content = ask(client, max_tokens=30, response_format=wanted).choices[0].message.content
    assert json.loads(content) == ["x"]


def test_a_choice_of_one_emoji_is_impossible(client: OpenAI) -> None:
    """lm-format-enforcer#116: no token of the model is the whole character."""
    schema = {"enum": ["\N{CAT}"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    [choice] = ask(client, max_tokens=30, response_format=wanted).choices
    assert json.loads(choice.message.content) == "\N{CAT}"
    assert choice.finish_reason == "stop"


def test_half_a_character_aborts_the_tokenizer(server: ServerProcess) -> None:
    """llama.cpp#8691: text that is no UTF-8, in each way that JSON can hold it."""
    for text in (b'"\\ud83d"', b'"\\udc00x"', b'"\xf0\x9f"'):
        for path, field in (("/tokenize", b"content"), ("/v1/completions", b"prompt")):
            body = b'{"max_tokens": 1, "' + field + b'": ' + text + b"}"
            headers = {"content-type": "application/json"}
            reply = httpx.post(server.url + path, content=body, headers=headers)
            assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_json")


def test_bounds_of_arrays_are_ignored(client: OpenAI) -> None:
    """vllm#12201."""
    schema = {"type": "array", "items": {"enum": ["x", "y"]}, "minItems": 2, "maxItems": 2}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    content = ask(client, max_tokens=60, response_format=wanted).choices[0].message.content
    assert len(json.loads(content)) == 2


def test_log_probabilities_have_ids_for_tokens_and_text_for_bytes(client: OpenAI) -> None:
    """mistral.rs."""
    [choice] = ask(client, max_tokens=4, logprobs=True, top_logprobs=2).choices
    for entry in choice.logprobs.content:
        assert bytes(entry.bytes).decode() == entry.token
        assert len(entry.top_logprobs) == 2


def test_equal_seeds_differ_or_no_seeds_are_equal(client: OpenAI) -> None:
    """llama.cpp#7381; mistral.rs#1626."""

    def say(**options: Any) -> Any:
        options = {"temperature": 1.3, "max_tokens": 16, **options}
        return ask(client, **options).choices[0].message.content

    assert say(seed=3) == say(seed=3)
    assert len({say() for _ in range(3)}) > 1
