from __future__ import annotations

import json
from typing import Any

import pytest

from mrs.errors import InvalidValueError, RequestError
from mrs.runtime.generation import GrammarKind
from mrs.server.conversation.conversation import FunctionTool, ToolChoice, ToolMode
from mrs.server.errors import FieldTypeError, MissingFieldError, UnsupportedFieldError
from mrs.server.responses.request import parse_responses_request
from mrs.server.responses.schemas import ResponsesRequest
from mrs.server.responses.text_format import format_told, response_grammar
from mrs.server.responses.tools import (
    function_tools,
    namespaces,
    tool_choice,
    tool_choice_told,
    tools_told,
)

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
FLAT = {"type": "function", "name": "f", "description": "D", "parameters": SCHEMA, "strict": True}
NESTED = {"type": "function", "function": {name: FLAT[name] for name in FLAT if name != "type"}}
OTHER = {"type": "function", "name": "g"}


def parsed(**fields: Any) -> ResponsesRequest:
    return parse_responses_request(json.dumps({"input": "Hi", **fields}).encode())


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"context_management": [{"type": "compaction"}]}, "context_management"),
        ({"moderation": {"model": "m"}}, "moderation"),
        ({"adapter": "a"}, "adapter"),
        ({"files": [{}]}, "files"),
        ({"max_tool_rounds": 3}, "max_tool_rounds"),
        ({"reasoning": {"mode": "pro"}}, "reasoning.mode"),
        ({"reasoning": {"context": "all_turns"}}, "reasoning.context"),
        ({"text": {"verbosity": "low"}}, "text.verbosity"),
        ({"tools": [{"type": "web_search"}]}, "tools[0]"),
        ({"tools": [{"type": "mcp", "server_label": "x"}]}, "tools[0]"),
        ({"tools": [{"type": "custom", "name": "x"}]}, "tools[0]"),
    ],
)
def test_what_cannot_be_done_is_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(UnsupportedFieldError) as caught:
        parsed(**fields)
    assert caught.value.param == param


@pytest.mark.parametrize(
    "fields",
    [
        {"conversation": None, "prompt": None, "context_management": []},
        {"reasoning": {"mode": "standard", "context": "auto", "summary": "detailed"}},
        {"reasoning": {"effort": "max", "generate_summary": "concise"}},
        {"text": {"verbosity": "medium", "format": {"type": "text"}}},
        {"max_tool_calls": 0, "n": 1, "service_tier": "flex", "user": "u"},
        {"include": ["reasoning.encrypted_content", "file_search_call.results"]},
        {"metadata": {"k" * 64: "v" * 512}},
        {"stream_options": {"include_usage": True}},
        {"truncation": "auto", "top_logprobs": 0},
        {"some_new_field": 3},
        {"dry_multiplier": 0.8, "min_p": 0.1, "seed": 3, "stop": "x", "top_k": 3},
    ],
)
def test_what_asks_for_nothing_more_passes(fields: dict[str, Any]) -> None:
    parsed(**fields)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"max_output_tokens": 3, "max_tokens": 4}, "max_output_tokens"),
        ({"n": 2}, "n"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"temperature": 3}, "temperature"),
        ({"include": ["everything"]}, "include[0]"),
        ({"metadata": {"k": "v" * 513}}, "metadata.k"),
        ({"metadata": {str(i): "" for i in range(17)}}, "metadata"),
        ({"background": True, "store": False}, "background"),
        ({"reasoning": {"effort": "some"}}, "reasoning.effort"),
        ({"reasoning": {"effort": "none"}, "enable_thinking": True}, "enable_thinking"),
        ({"reasoning": {"effort": "low"}, "enable_thinking": False}, "enable_thinking"),
        ({"truncation": "sometimes"}, "truncation"),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
    ],
)
def test_what_may_not_be_is_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        parsed(**fields)
    assert caught.value.param == param


@pytest.mark.parametrize("value", [True, 1.0, "1"], ids=repr)
def test_one_answer_is_a_whole_number_of_answers(value: object) -> None:
    with pytest.raises(FieldTypeError) as caught:
        parsed(n=value)
    assert caught.value.param == "n"


def test_without_input_there_must_be_a_response_to_go_on_from() -> None:
    with pytest.raises(MissingFieldError) as caught:
        parse_responses_request(b"{}")
    assert caught.value.param == "input"
    parse_responses_request(b'{"previous_response_id": "resp_1"}')


@pytest.mark.parametrize("name", ["max_output_tokens", "max_completion_tokens", "max_tokens"])
def test_the_limit_has_three_names(name: str) -> None:
    assert parsed(**{name: 7}).output_limit == 7


@pytest.mark.parametrize(
    "fields",
    [
        {"logprobs": True},
        {"top_logprobs": 2},
        {"include": ["message.output_text.logprobs"]},
    ],
)
def test_logprobs_can_be_asked_for_in_three_ways(fields: dict[str, Any]) -> None:
    assert parsed(**fields).wants_logprobs
    assert not parsed().wants_logprobs


@pytest.mark.parametrize("tool", [FLAT, NESTED])
def test_functions_are_flat_or_nested(tool: dict[str, Any]) -> None:
    request = parsed(tools=[tool])
    assert function_tools(request) == (FunctionTool("f", "D", SCHEMA, strict=True),)
    assert tools_told(request) == [FLAT]


def test_functions_of_a_namespace_have_both_names() -> None:
    group = {"type": "namespace", "name": "db", "description": None, "tools": [FLAT]}
    request = parsed(tools=[group, FLAT])
    assert [tool.name for tool in function_tools(request)] == ["db.f", "f"]
    assert namespaces(request) == {"db.f": ("db", "f")}
    assert tools_told(request) == [group, FLAT]
    choice = {"type": "function", "namespace": "db", "name": "f"}
    request = parsed(tools=[group], tool_choice=choice)
    assert tool_choice(request, function_tools(request)).names == {"db.f"}


def test_a_namespace_holds_functions_alone() -> None:
    group = {"type": "namespace", "name": "db", "tools": [{"type": "custom", "name": "x"}]}
    with pytest.raises(UnsupportedFieldError) as caught:
        parsed(tools=[group])
    assert caught.value.param == "tools[0].tools[0]"


def test_functions_need_names_and_different_ones() -> None:
    with pytest.raises(MissingFieldError, match=r"tools\[0\].name"):
        function_tools(parsed(tools=[{"type": "function"}]))
    with pytest.raises(InvalidValueError, match="'g'"):
        function_tools(parsed(tools=[OTHER, OTHER]))


@pytest.mark.parametrize(
    ("choice", "expected", "told"),
    [
        (None, ToolChoice(), "auto"),
        ("none", ToolChoice(ToolMode.NONE), "none"),
        ("required", ToolChoice(ToolMode.REQUIRED), "required"),
        (
            {"type": "function", "name": "g"},
            ToolChoice(ToolMode.REQUIRED, frozenset({"g"})),
            {"type": "function", "name": "g"},
        ),
        (
            {"type": "function", "function": {"name": "g"}},
            ToolChoice(ToolMode.REQUIRED, frozenset({"g"})),
            {"type": "function", "name": "g"},
        ),
        (
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "g"}],
            },
            ToolChoice(ToolMode.AUTO, frozenset({"g"})),
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "g"}],
            },
        ),
    ],
)
def test_choices_among_functions(choice: Any, expected: ToolChoice, told: Any) -> None:
    request = parsed(tools=[FLAT, OTHER], tool_choice=choice)
    found = tool_choice(request, function_tools(request))
    assert found == expected
    assert tool_choice_told(request, found) == told


@pytest.mark.parametrize(
    ("choice", "error"),
    [
        ("sometimes", InvalidValueError),
        ({"type": "function", "name": "h"}, InvalidValueError),
        ({"type": "function"}, MissingFieldError),
        ({"type": 3}, FieldTypeError),
        ({"type": "web_search"}, UnsupportedFieldError),
        ({"type": "allowed_tools", "tools": []}, FieldTypeError),
        ({"type": "allowed_tools", "tools": [{"type": "mcp"}]}, UnsupportedFieldError),
        ({"type": "allowed_tools", "tools": ["g"]}, FieldTypeError),
    ],
)
def test_choices_that_cannot_be_made(choice: Any, error: type[RequestError]) -> None:
    request = parsed(tools=[FLAT, OTHER], tool_choice=choice)
    with pytest.raises(error) as caught:
        tool_choice(request, function_tools(request))
    assert (caught.value.param or "").startswith("tool_choice")


def test_a_required_call_needs_tools() -> None:
    request = parsed(tool_choice="required")
    with pytest.raises(InvalidValueError, match="no tools"):
        tool_choice(request, ())


JSON_SCHEMA = {"type": "json_schema", "name": "n", "schema": SCHEMA}


@pytest.mark.parametrize(
    ("fields", "kind", "source"),
    [
        ({"text": {"format": JSON_SCHEMA}}, GrammarKind.JSON_SCHEMA, SCHEMA),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
            GrammarKind.JSON_SCHEMA,
            SCHEMA,
        ),
        (
            {"text": {"format": {"type": "json_object"}}},
            GrammarKind.JSON_SCHEMA,
            {"type": "object"},
        ),
        ({"grammar": {"type": "regex", "value": "3"}}, GrammarKind.REGEX, 3),
    ],
)
def test_formats_are_grammars(fields: dict[str, Any], kind: GrammarKind, source: Any) -> None:
    grammar = response_grammar(parsed(**fields))
    assert grammar is not None
    assert grammar.kind is kind
    assert json.loads(grammar.source) == source


@pytest.mark.parametrize("fields", [{}, {"text": {}}, {"text": {"format": {"type": "text"}}}])
def test_text_is_no_grammar(fields: dict[str, Any]) -> None:
    request = parsed(**fields)
    assert response_grammar(request) is None
    assert format_told(request) == {"type": "text"}


def test_one_field_says_what_the_text_must_match() -> None:
    grammar = {"grammar": {"type": "regex", "value": "a"}}
    with pytest.raises(InvalidValueError):
        response_grammar(parsed(text={"format": JSON_SCHEMA}, **grammar))


def test_a_schema_is_told_again() -> None:
    told = format_told(parsed(text={"format": JSON_SCHEMA}))
    assert told == {**JSON_SCHEMA, "description": None, "strict": True}
    nested = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
    assert format_told(parsed(response_format=nested)) == told
