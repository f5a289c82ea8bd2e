from __future__ import annotations

import json
from typing import Any

import pytest

from mrs.server.errors import MissingFieldError, UnsupportedFieldError
from mrs.server.openai.messages import template_messages
from mrs.server.openai.schemas import ChatMessage


def convert(*messages: dict[str, Any]) -> list[dict[str, str]]:
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
        ("tool_calls", [{"id": "1"}]),
        ("function_call", {"name": "f", "arguments": ""}),
        ("audio", {"id": "1"}),
    ],
)
def test_what_cannot_be_rendered_is_refused(field: str, value: Any) -> None:
    with pytest.raises(UnsupportedFieldError) as caught:
        convert({"role": "assistant", "content": "x", field: value})
    assert caught.value.param == f"messages[0].{field}"


def test_no_tool_calls_are_no_reason_to_refuse() -> None:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": "x",
        "tool_calls": [],
        "function_call": None,
    }
    assert convert(message) == [{"role": "assistant", "content": "x"}]
