"""Reads streams of Responses events, and holds them to their grammar."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

Event = dict[str, Any]
ENDS = {"response.completed", "response.incomplete", "response.failed"}
_DELTAS = {
    "response.output_text.delta": ("response.output_text.done", "text"),
    "response.reasoning_text.delta": ("response.reasoning_text.done", "text"),
    "response.function_call_arguments.delta": (
        "response.function_call_arguments.done",
        "arguments",
    ),
}


def parse_events(stream: bytes) -> list[Event]:
    """The events of a stream; each is named as its type."""
    blocks = [block for block in stream.split(b"\n\n") if not block.startswith(b":")]
    assert blocks.pop() == b"", "the stream ends inside an event"
    parsed = []
    for block in blocks:
        name, data = block.split(b"\n")
        event = json.loads(data.removeprefix(b"data: "))
        assert name == b"event: " + event["type"].encode()
        parsed.append(event)
    return parsed


def kinds(events: Iterable[Event]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def check_grammar(events: list[Event]) -> dict[str, Any]:
    """Hold a whole stream to the grammar of such streams; return the final response."""
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[0]["type"] == "response.created"
    assert [event["type"] for event in events if event["type"] in ENDS] == [events[-1]["type"]]
    resource: dict[str, Any] = events[-1]["response"]
    items = [_check_item(events, i, final) for i, final in enumerate(resource["output"])]
    told = {event["output_index"] for event in events if "output_index" in event}
    assert told == set(range(len(items)))
    _check_one_open_item(events)
    return resource


def _check_one_open_item(events: list[Event]) -> None:
    current = -1
    is_open = False
    for event in events:
        if event["type"] == "response.output_item.added":
            assert not is_open
            assert event["output_index"] == current + 1
            current, is_open = current + 1, True
        elif "output_index" in event:
            assert is_open
            assert event["output_index"] == current
            is_open = event["type"] != "response.output_item.done"
    assert not is_open


def _check_item(events: list[Event], index: int, final: dict[str, Any]) -> dict[str, Any]:
    mine = [event for event in events if event.get("output_index") == index]
    assert mine[0]["type"] == "response.output_item.added"
    assert mine[-1]["type"] == "response.output_item.done"
    assert mine[-1]["item"] == final
    added = mine[0]["item"]
    assert added["status"] == "in_progress"
    assert (added["id"], added["type"]) == (final["id"], final["type"])
    assert {event["item_id"] for event in mine[1:-1]} <= {final["id"]}
    pieces: dict[str, list[str]] = {}
    for event in mine[1:-1]:
        if event["type"] in _DELTAS:
            pieces.setdefault(event["type"], []).append(event["delta"])
    if final["type"] == "function_call":
        inner = ["response.function_call_arguments.done"]
        whole, delta = final["arguments"], "response.function_call_arguments.delta"
    else:
        (part,) = final["content"]
        kind = part["type"]
        inner = [f"response.{kind}.done", "response.content_part.done"]
        whole, delta = part["text"], f"response.{kind}.delta"
        assert mine[1]["type"] == "response.content_part.added"
        assert mine[1]["part"]["text"] == ""
        assert mine[-2]["part"] == part
    done, field = _DELTAS[delta]
    assert [event["type"] for event in mine[-1 - len(inner) : -1]] == inner
    assert "".join(pieces.pop(delta, [])) == whole
    assert not pieces
    (last,) = [event for event in mine if event["type"] == done]
    assert last[field] == whole
    return final
