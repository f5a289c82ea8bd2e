"""The body of a messages request to a conversation, and to what the engine is asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mrs.errors import ContextLengthExceededError, InvalidValueError, RequestError
from mrs.runtime.generation import GrammarKind
from mrs.server.anthropic.request import conversation_of, count_tokens, parse, prepare_message
from mrs.server.anthropic.schemas import MessagesRequest
from mrs.server.conversation.conversation import Conversation, FunctionTool, ToolChoice, ToolMode
from mrs.server.errors import MissingFieldError, UnsupportedFieldError
from tests.server.anthropic.answers import MODEL

HI = {"role": "user", "content": "hi"}
ADD = {"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}


def request(**fields: Any) -> MessagesRequest:
    body = {"max_tokens": 10, "messages": [HI], **fields}
    return parse(MessagesRequest, json.dumps(body).encode())


def conversation(**fields: Any) -> Conversation:
    return conversation_of(request(**fields))


def prepared(**fields: Any) -> Any:
    return prepare_message(request(**fields), MODEL).conversation.generation


class TestTools:
    def test_are_functions(self) -> None:
        strict = {**ADD, "name": "sub", "strict": True, "type": "custom", "defer_loading": True}
        assert conversation(tools=[ADD, strict]).tools == (
            FunctionTool("add", "Adds.", {"type": "object"}),
            FunctionTool("sub", "Adds.", {"type": "object"}, strict=True),
        )

    def test_show_the_examples_of_their_input(self) -> None:
        (tool,) = conversation(tools=[{**ADD, "input_examples": [{"a": 1}]}]).tools
        assert tool.description == 'Adds.\nExamples of its input:\n{"a": 1}'

    @pytest.mark.parametrize(
        ("choice", "expected"),
        [
            ({"type": "auto"}, ToolChoice(ToolMode.AUTO)),
            ({"type": "any"}, ToolChoice(ToolMode.REQUIRED)),
            ({"type": "none"}, ToolChoice(ToolMode.NONE)),
            ({"type": "tool", "name": "add"}, ToolChoice(ToolMode.REQUIRED, frozenset({"add"}))),
            (None, ToolChoice(ToolMode.AUTO)),
        ],
    )
    def test_may_or_must_be_called(self, choice: Any, expected: ToolChoice) -> None:
        assert conversation(tools=[ADD], tool_choice=choice).tool_choice == expected

    def test_may_be_called_one_at_a_time(self) -> None:
        choice = {"type": "auto", "disable_parallel_tool_use": True}
        assert not conversation(tools=[ADD], tool_choice=choice).parallel_tool_calls
        assert conversation(tools=[ADD]).parallel_tool_calls

    @pytest.mark.parametrize(
        ("fields", "param"),
        [
            ({"tool_choice": {"type": "any"}}, "tool_choice"),
            ({"tools": [ADD], "tool_choice": {"type": "tool", "name": "x"}}, "tool_choice.name"),
            ({"tools": [ADD], "tool_choice": {"type": "tool"}}, "tool_choice"),
            ({"tools": [ADD, ADD]}, "tools[1].name"),
            ({"tools": [{**ADD, "name": "a b"}]}, "tools[0].name"),
            ({"tools": [{"name": "a"}]}, "tools[0].input_schema"),
            ({"tools": [{**ADD, "input_schema": {"type": "array"}}]}, "tools[0].input_schema"),
        ],
    )
    def test_that_make_no_sense_are_refused(self, fields: dict[str, Any], param: str) -> None:
        with pytest.raises(RequestError) as caught:
            conversation(**fields)
        assert (caught.value.status, caught.value.param) == (400, param)

    @pytest.mark.parametrize(
        "tool",
        [
            {"type": "web_search_20250305", "name": "web_search"},
            {"type": "bash_20250124", "name": "bash"},
            {**ADD, "allowed_callers": ["code_execution_20260120"]},
        ],
    )
    def test_of_the_server_are_refused(self, tool: dict[str, Any]) -> None:
        with pytest.raises(UnsupportedFieldError):
            request(tools=[tool])


class TestThinking:
    @pytest.mark.parametrize(
        ("fields", "thinking"),
        [
            ({}, False),
            ({"thinking": {"type": "enabled", "budget_tokens": 5}}, True),
            ({"thinking": {"type": "disabled"}}, False),
            ({"thinking": {"type": "adaptive"}}, None),
            ({"enable_thinking": True}, True),
            ({"output_config": {"effort": "low"}}, None),
        ],
    )
    def test_is_off_unless_asked_for(self, fields: dict[str, Any], thinking: bool | None) -> None:
        assert conversation(**fields).thinking is thinking

    def test_has_an_effort(self) -> None:
        assert conversation(output_config={"effort": "max"}).reasoning_effort == "xhigh"
        assert conversation(output_config={"effort": "low"}).reasoning_effort == "low"
        off = {"thinking": {"type": "disabled"}, "output_config": {"effort": "low"}}
        assert conversation(**off).reasoning_effort is None

    def test_of_more_tokens_than_the_answer_is_refused(self) -> None:
        with pytest.raises(InvalidValueError) as caught:
            prepared(thinking={"type": "enabled", "budget_tokens": 10})
        assert caught.value.param == "max_tokens"


class TestTheTextsForm:
    @pytest.mark.parametrize(
        "fields",
        [
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
            {"output_format": {"type": "json_schema", "schema": {"type": "object"}}},
            {"response_format": {"type": "json_object"}},
            {"grammar": {"type": "json_schema", "value": {"type": "object"}}},
        ],
    )
    def test_is_a_grammar(self, fields: dict[str, Any]) -> None:
        grammar = conversation(**fields).response_format
        assert grammar is not None
        assert grammar.kind is GrammarKind.JSON_SCHEMA
        assert json.loads(grammar.source) == {"type": "object"}

    def test_is_free_unless_asked_for(self) -> None:
        assert conversation().response_format is None

    def test_is_asked_for_once(self) -> None:
        schema = {"type": "json_schema", "schema": {}}
        with pytest.raises(InvalidValueError):
            conversation(output_format=schema, grammar={"type": "regex", "value": "a"})


class TestTheEngine:
    def test_is_asked_for_what_the_fields_say(self) -> None:
        generation = prepared(
            temperature=0.5, top_k=3, top_p=0.9, stop_sequences=["a"], stop="b", cache_salt="s"
        )
        sampling = generation.sampling
        assert (sampling.temperature, sampling.top_k, sampling.top_p) == (0.5, 3, 0.9)
        assert sampling.max_tokens == 10
        assert sampling.stop == ("a", "b")
        assert generation.cache_salt == "s"

    def test_may_end_at_the_end_of_the_context(self) -> None:
        made = prepare_message(request(max_tokens=5000), MODEL)
        assert made.ends_at_context
        assert made.conversation.generation.sampling.max_tokens == MODEL.max_model_len - 2
        exact = prepare_message(request(max_tokens=MODEL.max_model_len - 2), MODEL)
        assert not exact.ends_at_context

    def test_is_not_asked_for_prompts_without_room(self) -> None:
        with pytest.raises(ContextLengthExceededError, match="too long: 128 tokens > 127 maximum"):
            prepared(messages=[{"role": "user", "content": "x" * 128}])

    def test_may_shorten_them(self) -> None:
        long = [{"role": "user", "content": "x" * 200}]
        assert prepared(messages=long, truncate_sequence=True).truncate


def test_a_last_message_of_the_assistant_is_continued() -> None:
    assert conversation(messages=[HI, {"role": "assistant", "content": "I"}]).continue_final
    assert not conversation().continue_final


def test_tokens_are_counted_as_the_prompt_has_them() -> None:
    assert count_tokens(request(system="abc"), MODEL) == len("abc") + len("hi")


@pytest.mark.parametrize("name", ["max_tokens", "messages"])
def test_what_must_be_there_is_missed(name: str) -> None:
    body = {"max_tokens": 10, "messages": [HI]}
    del body[name]
    with pytest.raises(MissingFieldError) as caught:
        parse(MessagesRequest, json.dumps(body).encode())
    assert caught.value.param == name


@pytest.mark.parametrize(
    "fields",
    [
        {"max_tokens": 0},
        {"max_tokens": "5"},
        {"messages": []},
        {"messages": [{"role": "tool", "content": "x"}]},
        {"temperature": -1},
        {"stop_sequences": [""]},
        {"stop_sequences": ["x"] * 65},
        {"thinking": {"type": "often"}},
        {"system": {"type": "text"}},
        {"system": [{"type": "image"}]},
    ],
)
def test_values_that_cannot_be_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(RequestError) as caught:
        request(**fields)
    assert caught.value.status == 400
    assert str(caught.value.param).startswith(next(iter(fields)))


@pytest.mark.parametrize(
    "fields",
    [
        {"mcp_servers": [{"type": "url"}]},
        {"container": {"skills": [{"type": "custom"}]}},
        {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
        {"logprobs": True},
        {"enable_code_execution": True},
        {"session_id": "x"},
    ],
)
def test_what_this_server_cannot_do_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedFieldError):
        request(**fields)


def test_what_asks_for_nothing_is_accepted() -> None:
    request(
        cache_control={"type": "ephemeral"},
        container="container",
        context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        inference_geo="us",
        logprobs=False,
        mcp_servers=[],
        metadata={"user_id": "u"},
        service_tier="auto",
        speed="standard",
        future_field=1,
    )
