"""Answers to a messages request: whole, streamed, and as Anthropic's own client reads them."""

from __future__ import annotations

import json
import re
from typing import Any

import anthropic
import httpx2
import pytest
from hypothesis import given, settings

from mrs.server.anthropic.responses import MessageResponse, MessageStreamEvent
from mrs.server.conversation.events import AnswerEvent, Finished, ReasoningDelta, TextDelta
from tests.server.anthropic.answers import LAW, Events, answers, call, message, streamed, whole

HELLO: Events = [TextDelta("Hel"), TextDelta("lo"), Finished("stop")]
TOOL: Events = [*call(0, '{"a": {"b": 1}}', '{"a": {"', 'b": 1}}'), Finished("tool_calls")]


class Accumulator:
    """Anthropic's client, whose server sends what a test tells."""

    def __init__(self) -> None:
        self.body = b""
        client = httpx2.Client(transport=httpx2.MockTransport(self._answer))
        self._sdk = anthropic.Anthropic(api_key="none", http_client=client, max_retries=0)

    def __call__(self, body: bytes) -> dict[str, Any]:
        """The message that the client makes of a stream."""
        self.body = body
        message: Any = {"role": "user", "content": "hi"}
        with self._sdk.messages.stream(model="m", max_tokens=9, messages=[message]) as stream:
            final = stream.get_final_message()
        made: dict[str, Any] = final.model_dump(mode="json", exclude_unset=True)
        return made

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(
            200, content=self.body, headers={"content-type": "text/event-stream"}
        )


ACCUMULATE = Accumulator()


@settings(LAW)
@given(answers())
def test_what_the_client_accumulates_is_the_whole_message(events: Events) -> None:
    accumulated = ACCUMULATE(message(events, stream=True))
    unstreamed = whole(events)
    for name in ("content", "stop_reason", "stop_sequence", "role", "model"):
        assert _without_buffers(accumulated[name]) == unstreamed[name]
    usage = unstreamed["usage"]
    for name in ("input_tokens", "output_tokens", "cache_read_input_tokens"):
        assert accumulated["usage"][name] == usage[name]


@settings(LAW)
@given(answers())
def test_a_stream_has_the_order_of_anthropics(events: Events) -> None:
    letters = {
        "message_start": "M",
        "content_block_start": "(",
        "content_block_delta": ".",
        "content_block_stop": ")",
        "message_delta": "D",
        "message_stop": "E",
    }
    word = "".join(letters[event["type"]] for event in streamed(events))
    assert re.fullmatch(r"M(\(\.*\))*DE", word)


@settings(LAW)
@given(answers())
def test_answers_are_as_documented(events: Events) -> None:
    MessageResponse.model_validate_json(message(events), strict=True, extra="forbid")
    for event in streamed(events):
        MessageStreamEvent.model_validate_json(json.dumps(event), strict=True, extra="forbid")


def test_a_whole_message_has_anthropics_shape() -> None:
    body = whole(HELLO)
    assert body.pop("id").startswith("msg_")
    assert body == {
        "type": "message",
        "role": "assistant",
        "model": "tiny/fake",
        "content": [{"type": "text", "text": "Hello"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 3,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 2,
            "output_tokens": 3,
            "output_tokens_details": {"thinking_tokens": 0},
            "service_tier": "standard",
        },
    }


def test_the_first_event_tells_the_prompts_tokens_and_what_was_cached() -> None:
    usage = streamed(HELLO)[0]["message"]["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (3, 2)
    assert usage["output_tokens"] == 0


def test_a_prompt_that_lost_its_beginning_is_counted_without_it() -> None:
    for body in (whole(HELLO, dropped=2), streamed(HELLO, dropped=2)[0]["message"]):
        assert body["usage"]["input_tokens"] == 1


def test_the_last_usage_counts_all_tokens_that_were_drawn() -> None:
    (last,) = [event for event in streamed(HELLO) if event["type"] == "message_delta"]
    assert last["usage"]["output_tokens"] == 3
    assert last["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}


@pytest.mark.parametrize(
    ("finished", "fields", "reason", "sequence"),
    [
        (Finished("stop"), {}, "end_turn", None),
        (Finished("length"), {}, "max_tokens", None),
        (Finished("tool_calls"), {}, "tool_use", None),
        (Finished("stop", stop="END"), {"stop_sequences": ["x", "END"]}, "stop_sequence", "END"),
        (Finished("stop", stop="END"), {"stop": "END"}, "stop_sequence", "END"),
        (Finished("stop", stop="</tool>"), {"stop_sequences": ["x"]}, "end_turn", None),
    ],
)
def test_the_reason_of_the_end_is_told(
    finished: Finished, fields: dict[str, Any], reason: str, sequence: str | None
) -> None:
    events: list[AnswerEvent] = [TextDelta("a"), finished]
    body = whole(events, **fields)
    assert (body["stop_reason"], body["stop_sequence"]) == (reason, sequence)
    delta = streamed(events, **fields)[-2]["delta"]
    assert (delta["stop_reason"], delta["stop_sequence"]) == (reason, sequence)


def test_the_end_of_the_context_is_a_reason_of_its_own() -> None:
    events: list[AnswerEvent] = [TextDelta("a"), Finished("length")]
    assert whole(events, at_context_end=True)["stop_reason"] == "model_context_window_exceeded"


def test_thinking_tokens_are_counted() -> None:
    events = [ReasoningDelta("Hm."), TextDelta("a"), Finished("stop", reasoning_tokens=1)]
    assert whole(events)["usage"]["output_tokens_details"] == {"thinking_tokens": 1}


def test_thinking_can_be_omitted() -> None:
    thinking = {"type": "enabled", "budget_tokens": 50, "display": "omitted"}
    events = [ReasoningDelta("secret"), TextDelta("a"), Finished("stop")]
    assert whole(events, thinking=thinking)["content"][0]["thinking"] == ""
    assert b"secret" not in message(events, thinking=thinking, stream=True)


class TestReportedBugs:
    """Symptoms that users of other servers have reported."""

    def test_a_stream_with_a_tool_use_does_not_say_end_turn(self) -> None:
        assert streamed(TOOL)[-2]["delta"]["stop_reason"] == "tool_use"

    def test_no_empty_text_block_leads_a_tool_use(self) -> None:
        started = streamed([TextDelta(""), TextDelta("\n"), *TOOL])
        kinds = [e["content_block"]["type"] for e in started if e["type"] == "content_block_start"]
        assert kinds == ["tool_use"]

    def test_a_message_starts_once(self) -> None:
        kinds = [event["type"] for event in streamed([ReasoningDelta("a"), TextDelta("b"), *TOOL])]
        assert kinds.count("message_start") == 1

    def test_thinking_is_not_told_inside_a_text_block(self) -> None:
        kind = ""
        for event in streamed([TextDelta("a"), ReasoningDelta("b"), TextDelta("c"), *TOOL]):
            if event["type"] == "content_block_start":
                kind = event["content_block"]["type"]
            elif event["type"] == "content_block_delta":
                allowed = {
                    "text": {"text_delta"},
                    "thinking": {"thinking_delta", "signature_delta"},
                    "tool_use": {"input_json_delta"},
                }
                assert event["delta"]["type"] in allowed[kind]

    def test_a_tool_use_has_input_deltas_that_make_its_input(self) -> None:
        deltas = [e["delta"] for e in streamed(TOOL) if e["type"] == "content_block_delta"]
        assert len(deltas) == 2
        arguments = json.loads("".join(delta["partial_json"] for delta in deltas))
        assert arguments == whole(TOOL)["content"][0]["input"] == {"a": {"b": 1}}


def _without_buffers(value: Any) -> Any:
    """What the client keeps of a call's input beside the message is no part of it."""
    if isinstance(value, list):
        return [{k: v for k, v in block.items() if not k.startswith("__")} for block in value]
    return value
