"""Items of requests: validated, given ids, and made messages of a chat template."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrs.errors import InvalidValueError, RequestError
from mrs.server.errors import MissingFieldError, UnsupportedFieldError
from mrs.server.responses.errors import ItemNotFoundError
from mrs.server.responses.items import input_items, referenced_ids, seal, unseal
from mrs.server.responses.request import parse_responses_request
from mrs.server.responses.template_messages import template_messages, without_oldest

CALL = {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": '{"a": 1}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "2"}


def items_of(*given: Any, known: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    body = json.dumps({"input": given[0] if isinstance(given[0], str) else given})
    return input_items(parse_responses_request(body.encode()), known or {})


def messages_of(*given: Any, instructions: str | None = None) -> list[dict[str, Any]]:
    return [dict(message) for message in template_messages(items_of(*given), instructions)]


def said(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


def test_a_string_is_a_message_of_the_user() -> None:
    (item,) = items_of("Hi")
    assert item["id"].startswith("msg_")
    assert item["content"] == [{"type": "input_text", "text": "Hi"}]
    assert messages_of("Hi") == [said("user", "Hi")]


@pytest.mark.parametrize("role", ["user", "system", "developer", "assistant"])
@pytest.mark.parametrize("kind", ["input_text", "output_text", "text"])
def test_any_role_may_have_parts(role: str, kind: str) -> None:
    parts = [{"type": kind, "text": "a"}, {"type": kind, "text": "b"}]
    expected = "system" if role == "developer" else role
    assert messages_of(said(role, parts)) == [said(expected, "a\nb")]


@pytest.mark.parametrize("type_field", [{}, {"type": "message"}, {"type": None}])
def test_the_type_of_a_message_may_be_left_out(type_field: dict[str, Any]) -> None:
    assert messages_of({**type_field, **said("user", "Hi")}) == [said("user", "Hi")]


def test_a_refusal_of_the_assistant_is_what_it_said() -> None:
    assert messages_of(said("assistant", [{"type": "refusal", "refusal": "No."}])) == [
        said("assistant", "No.")
    ]


def test_ids_and_phases_of_clients_are_kept() -> None:
    (item,) = items_of({"id": "msg_x", "phase": "commentary", **said("assistant", "Hm")})
    assert (item["id"], item["phase"]) == ("msg_x", "commentary")
    assert item["content"] == [
        {"type": "output_text", "text": "Hm", "annotations": [], "logprobs": []}
    ]


def test_calls_and_outputs_are_a_round_of_tools() -> None:
    assert messages_of(said("user", "?"), CALL, OUTPUT) == [
        said("user", "?"),
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "look_up", "arguments": {"a": 1}},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "name": "look_up", "content": "2"},
    ]


def test_reasoning_text_and_calls_in_a_row_are_one_message() -> None:
    thought = {
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm"}],
    }
    second = {**CALL, "call_id": "c2"}
    user, assistant, tool = messages_of(
        said("user", "?"), thought, said("assistant", "I look."), CALL, second, OUTPUT
    )
    assert assistant["reasoning_content"] == "Hm"
    assert assistant["content"] == "I look."
    assert [call["id"] for call in assistant["tool_calls"]] == ["c1", "c2"]
    assert (user["role"], tool["role"]) == ("user", "tool")


def test_two_texts_are_two_messages() -> None:
    assert messages_of(said("assistant", "a"), said("assistant", "b")) == [
        said("assistant", "a"),
        said("assistant", "b"),
    ]


def test_reasoning_after_a_text_begins_a_message() -> None:
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "S"}]}
    first, second = messages_of(said("assistant", "a"), thought, CALL)
    assert "tool_calls" not in first
    assert second["reasoning_content"] == "S"
    assert len(second["tool_calls"]) == 1


def test_instructions_and_leading_system_messages_are_one() -> None:
    given = (said("developer", "B"), said("system", "C"), said("user", "Hi"), said("system", "D"))
    assert messages_of(*given, instructions="A") == [
        said("system", "A\n\nB\n\nC"),
        said("user", "Hi"),
        said("system", "D"),
    ]


def test_arguments_that_are_no_object_stay_as_they_are() -> None:
    (message,) = messages_of({**CALL, "arguments": '{"cut'})
    assert message["tool_calls"][0]["function"]["arguments"] == '{"cut'


def test_the_output_of_a_call_may_be_parts() -> None:
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]
    assert messages_of(CALL, {**OUTPUT, "output": parts})[1]["content"] == "a\nb"


def test_a_called_function_is_known_by_its_namespace_too() -> None:
    message, result = messages_of({**CALL, "namespace": "db"}, OUTPUT)
    assert message["tool_calls"][0]["function"]["name"] == result["name"] == "db.look_up"


def test_an_output_needs_its_call() -> None:
    with pytest.raises(InvalidValueError, match="'c1'"):
        messages_of(OUTPUT)


def test_references_are_to_stored_items_and_to_those_before() -> None:
    stored = {"type": "message", "id": "msg_s", "role": "user", "content": []}
    own = {"id": "msg_o", **said("user", "Hi")}
    references = [{"type": "item_reference", "id": "msg_s"}, {"id": "msg_o"}]
    found = items_of(own, *references, known={"msg_s": stored})
    assert [item["id"] for item in found] == ["msg_o", "msg_s", "msg_o"]
    body = json.dumps({"input": references}).encode()
    assert referenced_ids(parse_responses_request(body)) == ["msg_s", "msg_o"]


def test_a_reference_to_nothing() -> None:
    with pytest.raises(ItemNotFoundError) as caught:
        items_of({"type": "item_reference", "id": "msg_s"})
    assert caught.value.param == "input[0].id"
    assert caught.value.status == 404


@given(st.text())
def test_sealed_reasoning_is_read_again(text: str) -> None:
    thought = {"type": "reasoning", "summary": [], "encrypted_content": seal(text)}
    (item,) = items_of(thought)
    assert item["content"] == [{"type": "reasoning_text", "text": text}]


@pytest.mark.parametrize("sealed", ["gAAAAABk", "mrs1.%%%", "mrs1./w==", "mrs1.é", ""])
def test_what_another_server_sealed_is_refused(sealed: str) -> None:
    with pytest.raises(InvalidValueError, match="encrypted_content"):
        unseal(sealed, "input[0].encrypted_content")


def test_sealed_reasoning_of_elsewhere_is_not_needed_beside_the_content() -> None:
    content = [{"type": "reasoning_text", "text": "Hm"}]
    (item,) = items_of(
        {"type": "reasoning", "summary": [], "content": content, "encrypted_content": "gAAA"}
    )
    assert item["content"] == content


@pytest.mark.parametrize(
    ("item", "error", "param"),
    [
        ({"type": "computer_call", "id": "x"}, UnsupportedFieldError, "input[0]"),
        ({"type": "web_search_call"}, UnsupportedFieldError, "input[0]"),
        (said("user", [{"type": "input_image", "image_url": "x"}]), UnsupportedFieldError, None),
        (said("user", [{"type": "input_file", "file_id": "x"}]), UnsupportedFieldError, None),
        (said("user", [{"type": "input_text"}]), RequestError, "input[0].content[0]"),
        (said("tool", "x"), InvalidValueError, "input[0].role"),
        (said("user", None), RequestError, "input[0].content"),
        ({"role": "user"}, MissingFieldError, "input[0].content"),
        ({"type": "function_call", "name": "f"}, MissingFieldError, "input[0].call_id"),
        ({**OUTPUT, "output": 3}, RequestError, "input[0].output"),
        ({}, MissingFieldError, "input[0].role"),
        ("text", RequestError, "input[0]"),
        ({"type": 3}, RequestError, "input[0]"),
    ],
)
def test_what_is_no_item_is_refused(item: Any, error: type[Exception], param: str | None) -> None:
    body = json.dumps({"input": [item]}).encode()
    with pytest.raises(error) as caught:
        parse_responses_request(body)
    if param is not None:
        assert getattr(caught.value, "param", None) == param


def test_the_oldest_turns_go_first_and_the_system_stays() -> None:
    messages = messages_of(
        said("system", "S"), said("user", "1"), said("assistant", "2"), said("user", "3")
    )
    assert without_oldest(messages, 0) == messages
    assert without_oldest(messages, 1) == [said("system", "S"), said("user", "3")]
    assert without_oldest(messages, 2) is None
