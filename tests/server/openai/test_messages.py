from __future__ import annotations

import json
from typing import Any

import pytest

from mrs.errors import InvalidValueError
from mrs.server.errors import MissingFieldError, UnsupportedFieldError
from mrs.server.openai.message_schemas import ChatMessage
from mrs.server.openai.messages import template_messages


def convert(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    return template_messages(
        [ChatMessage.model_validate_json(json.dumps(message)) for message in messages]
    )


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_text_is_passed_on_for_every_role(role: str) -> None:
    assert convert({"role": role, "content": " hi\n"}) == [{"role": role, "content": " hi\n"}]


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_parts_become_lines_of_one_text_for_every_role(role: str) -> None:
    parts = [{"type": "text", "text": "one"}, {"text": " two "}, {"type": "text", "text": ""}]
    assert convert({"role": role, "content": parts}) == [{"role": role, "content": "one\n two \n"}]


def test_a_developer_is_the_system() -> None:
    assert convert({"role": "developer", "content": "x"})[0]["role"] == "system"


@pytest.mark.parametrize("content", [None, [], ""])
def test_no_content_is_an_empty_one(content: Any) -> None:
    assert convert({"role": "user", "content": content}) == [{"role": "user", "content": ""}]


def test_only_an_assistant_may_leave_its_content_out() -> None:
    assert convert({"role": "assistant"}) == [{"role": "assistant", "content": ""}]
    with pytest.raises(MissingFieldError) as caught:
        convert({"role": "user", "content": "x"}, {"role": "user"})
    assert caught.value.param == "messages[1].content"


def test_a_refusal_is_what_the_assistant_said() -> None:
    part = {"type": "refusal", "refusal": "No."}
    assert convert({"role": "assistant", "content": None, "refusal": "No."})[0]["content"] == "No."
    assert convert({"role": "assistant", "content": [part]})[0]["content"] == "No."


def test_names_and_call_ids_reach_the_template() -> None:
    given = {"role": "tool", "content": "4", "name": "add", "tool_call_id": "call-1"}
    assert convert(given) == [given]


def test_unknown_fields_do_not_reach_the_template() -> None:
    assert convert({"role": "user", "content": "x", "evil": "y"}) == [
        {"role": "user", "content": "x"}
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("audio", {"id": "1"}),
    ],
)
def test_what_cannot_be_rendered_is_refused(field: str, value: Any) -> None:
    with pytest.raises(UnsupportedFieldError) as caught:
        convert({"role": "assistant", "content": "x", field: value})
    assert caught.value.param == f"messages[0].{field}"


CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}


def test_calls_reach_the_template_with_their_arguments_as_an_object() -> None:
    [message] = convert({"role": "assistant", "content": None, "tool_calls": [CALL]})
    assert message == {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "f", "arguments": {"a": 1}},
            }
        ],
    }


@pytest.mark.parametrize("arguments", [None, "", " ", "{}", {}])
def test_no_arguments_are_an_empty_object(arguments: Any) -> None:
    call = {"id": "1", "function": {"name": "f", "arguments": arguments}}
    [message] = convert({"role": "assistant", "tool_calls": [call]})
    assert message["tool_calls"][0]["function"]["arguments"] == {}


@pytest.mark.parametrize("arguments", ["{", "[1]", "null", '{"a": NaN}x', "[" * 100_000])
def test_arguments_that_are_no_json_object_are_refused_by_place(arguments: str) -> None:
    call = {"id": "1", "function": {"name": "f", "arguments": arguments}}
    with pytest.raises(InvalidValueError) as caught:
        convert({"role": "assistant", "tool_calls": [CALL, call]})
    assert caught.value.param == "messages[0].tool_calls[1].function.arguments"


def test_the_older_form_of_a_call_and_of_its_result_is_understood() -> None:
    called = {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}
    first, second = convert(called, {"role": "function", "name": "f", "content": "4"})
    [call] = first["tool_calls"]
    assert call["function"] == {"name": "f", "arguments": {}}
    assert second == {"role": "tool", "name": "f", "content": "4", "tool_call_id": call["id"]}


def test_only_the_assistant_calls() -> None:
    with pytest.raises(InvalidValueError) as caught:
        convert({"role": "user", "content": "x", "tool_calls": [CALL]})
    assert caught.value.param == "messages[0].tool_calls"


def test_no_tool_calls_are_no_reason_to_refuse() -> None:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": "x",
        "tool_calls": [],
        "function_call": None,
    }
    assert convert(message) == [{"role": "assistant", "content": "x"}]
