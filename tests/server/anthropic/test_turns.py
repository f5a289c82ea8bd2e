"""Messages of a request to messages of a chat template."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mrs.errors import InvalidValueError, RequestError
from mrs.server.anthropic.request import parse
from mrs.server.anthropic.schemas import CountTokensRequest
from mrs.server.anthropic.turns import template_messages
from mrs.server.errors import UnsupportedFieldError


def turns(*messages: Any, system: Any = None) -> list[dict[str, Any]]:
    body = {"messages": list(messages), "system": system}
    request = parse(CountTokensRequest, json.dumps(body).encode())
    return [dict(turn) for turn in template_messages(request.system, request.messages)]


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


USE = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}}


def test_strings_and_blocks_of_text_are_the_same() -> None:
    expected = [{"role": "system", "content": "S"}, {"role": "user", "content": "hi"}]
    assert turns({"role": "user", "content": "hi"}, system="S") == expected
    assert turns(user(text("hi")), system=[text("S")]) == expected


def test_several_blocks_are_lines() -> None:
    assert turns(user(text("a"), text("b")), system=[text("c"), text("d")]) == [
        {"role": "system", "content": "c\nd"},
        {"role": "user", "content": "a\nb"},
    ]


def test_no_system_is_no_message() -> None:
    assert [turn["role"] for turn in turns(user(text("a")), system="")] == ["user"]


def test_messages_of_one_role_are_one_turn() -> None:
    made = turns(
        user(text("a")),
        user(text("b")),
        assistant({"type": "thinking", "thinking": "x", "signature": "s"}, text("c")),
        assistant({"type": "thinking", "thinking": "y", "signature": "s"}, text("d"), USE),
    )
    assert [turn["content"] for turn in made] == ["a\nb", "cd"]
    assert made[1]["reasoning_content"] == "xy"
    assert len(made[1]["tool_calls"]) == 1


def test_a_call_and_its_result_are_messages_of_their_own() -> None:
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "2"}
    assert turns(user(text("1+1?")), assistant(text("Let me see."), USE), user(result)) == [
        {"role": "user", "content": "1+1?"},
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [
                {
                    "id": "toolu_1",
                    "type": "function",
                    "function": {"name": "add", "arguments": {"a": 1}},
                }
            ],
        },
        {"role": "tool", "content": "2", "tool_call_id": "toolu_1", "name": "add"},
    ]


@pytest.mark.parametrize(
    ("fields", "content"),
    [
        ({}, ""),
        ({"content": [text("a"), text("b")]}, "a\nb"),
        ({"content": "bad", "is_error": True}, "Error: bad"),
        ({"is_error": True}, "Error"),
        ({"content": "fine", "is_error": False}, "fine"),
    ],
)
def test_results_of_all_forms_are_text(fields: dict[str, Any], content: str) -> None:
    (made,) = turns(user({"type": "tool_result", "tool_use_id": "x", **fields}))
    assert made == {"role": "tool", "content": content, "tool_call_id": "x"}


def test_results_stay_apart_and_what_is_said_beside_them_follows() -> None:
    results = [{"type": "tool_result", "tool_use_id": name, "content": name} for name in "ab"]
    made = turns(user(*results, text("And now?")))
    assert [(turn["role"], turn["content"]) for turn in made] == [
        ("tool", "a"),
        ("tool", "b"),
        ("user", "And now?"),
    ]


def test_sealed_thinking_is_left_out() -> None:
    (made,) = turns(assistant({"type": "redacted_thinking", "data": "x"}, text("a")))
    assert made == {"role": "assistant", "content": "a"}


def test_documents_are_text_with_their_titles() -> None:
    plain = {"type": "text", "media_type": "text/plain", "data": "It is so."}
    (made,) = turns(user({"type": "document", "source": plain, "title": "T", "context": "C"}))
    assert made["content"] == "<document>\nT\nC\nIt is so.\n</document>"
    content = {"type": "content", "content": [text("a"), text("b")]}
    (made,) = turns(user({"type": "document", "source": content}, text("?")))
    assert made["content"] == "<document>\na\nb\n</document>\n?"


def test_search_results_are_text_with_their_source() -> None:
    found = {"type": "search_result", "source": "http://x", "title": "T", "content": [text("a")]}
    (made,) = turns(user({"type": "tool_result", "tool_use_id": "1", "content": [found]}))
    assert made["content"] == "<search_result>\nT\nhttp://x\na\n</search_result>"


def test_instructions_amid_the_conversation_keep_their_place() -> None:
    made = turns(
        user(text("a"), {"type": "mid_conv_system", "content": [text("S")]}),
        {"role": "system", "content": "T"},
    )
    assert [(turn["role"], turn["content"]) for turn in made] == [("user", "a"), ("system", "S\nT")]


def test_an_empty_message_is_an_empty_turn() -> None:
    assert turns(user()) == [{"role": "user", "content": ""}]


@pytest.mark.parametrize("role", ["user", "assistant"])
@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "source": {"type": "url", "url": "file:///etc/passwd"}},
        {"type": "document", "source": {"type": "base64", "data": "JVBE"}},
        {"type": "document", "source": {"type": "url", "url": "http://x"}},
        {
            "type": "document",
            "source": {"type": "text", "data": "x"},
            "citations": {"enabled": True},
        },
        {"type": "server_tool_use", "id": "1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "1", "content": []},
        {"type": "mcp_tool_use", "id": "1"},
        {"type": "container_upload", "file_id": "1"},
        {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "image", "source": {}}]},
    ],
)
def test_what_cannot_be_read_is_refused_by_name(role: str, block: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedFieldError) as caught:
        turns({"role": role, "content": [text("a"), block]})
    assert str(caught.value.param).startswith("messages[0].content[1]")


@pytest.mark.parametrize(
    ("message", "param"),
    [
        (user(USE), "messages[0].content[0]"),
        (user({"type": "thinking", "thinking": "x"}), "messages[0].content[0]"),
        (assistant({"type": "tool_result", "tool_use_id": "1"}), "messages[0].content[0]"),
    ],
)
def test_blocks_of_another_role_are_refused(message: Any, param: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        turns(message)
    assert caught.value.param == param


@pytest.mark.parametrize(
    "content",
    [None, 5, {}, [5], [None], [{}], [{"type": None}], [{"type": "x"}], [{"type": "text"}], ["a"]],
)
def test_malformed_contents_are_refused(content: Any) -> None:
    with pytest.raises(RequestError) as caught:
        turns({"role": "user", "content": content})
    assert str(caught.value.param).startswith("messages[0].content")
