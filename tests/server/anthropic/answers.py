"""Answers to messages requests, made of events by hand, and a strategy of such events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from mrs.runtime.generation import FinishReason, GenerationDelta, GenerationRequest, SamplingParams
from mrs.server.anthropic.message_answer import message_answer
from mrs.server.anthropic.request import PreparedMessage, parse
from mrs.server.anthropic.schemas import MessagesRequest
from mrs.server.conversation.events import (
    AnswerEvent,
    Finished,
    ReasoningDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallBegun,
    ToolCallEnded,
)
from mrs.server.conversation.prepare import PreparedConversation
from mrs.server.generation import Tally
from tests.server.fake_engine import FakeEngine, served

# Other people's work on the same machine must not fail a law.
LAW = settings(max_examples=50, deadline=None)
MODEL = served(FakeEngine())
Events = Sequence[AnswerEvent]


class ScriptedReader:
    """Reads the n-th event out of the n-th delta."""

    def __init__(self, events: Events) -> None:
        self._events = iter(events)

    def read(self, delta: GenerationDelta) -> Iterator[AnswerEvent]:
        yield next(self._events)


def message(
    events: Events, *, at_context_end: bool = False, dropped: int = 0, **fields: Any
) -> bytes:
    """What a client gets for an answer of these events, each in a step of its own."""
    body = {"max_tokens": 100, "messages": [{"role": "user", "content": "hi"}], **fields}
    request = parse(MessagesRequest, json.dumps(body).encode())
    generation = GenerationRequest((1, 2, 3, 4, 5), SamplingParams())
    reader: Any = lambda: ScriptedReader(events)  # noqa: E731
    prepared = PreparedMessage(PreparedConversation(generation, reader), at_context_end)
    answer = message_answer(request, prepared, MODEL)
    tally = Tally(5, 1)
    sent = b""
    for event in events:
        ended = FinishReason.STOP if isinstance(event, Finished) else None
        step = (GenerationDelta(0, "", (7,), ended, cached_tokens=2, dropped_tokens=dropped),)
        tally.count(step)
        sent += answer.add(step)
    return sent + answer.close(tally)


def whole(events: Events, **fields: Any) -> dict[str, Any]:
    """The whole message."""
    body: dict[str, Any] = json.loads(message(events, **fields))
    return body


def streamed(events: Events, **fields: Any) -> list[dict[str, Any]]:
    """The data of the stream's events; checks that each has its type for a name."""
    return read_events(message(events, stream=True, **fields))


def read_events(body: bytes) -> list[dict[str, Any]]:
    """The data of events; checks that each has its type for a name."""
    blocks = body.split(b"\n\n")
    assert blocks.pop() == b"", "the body ends inside an event"
    found = []
    for block in blocks:
        name, data = block.split(b"\n")
        found.append(json.loads(data.removeprefix(b"data: ")))
        assert name == b"event: " + found[-1]["type"].encode()
    return found


def call(index: int, arguments: str, *fragments: str, name: str = "f") -> list[AnswerEvent]:
    """The events of one whole call."""
    pieces = [ToolCallArguments(index, fragment) for fragment in fragments or (arguments,)]
    return [ToolCallBegun(index, f"call_{index}", name), *pieces, ToolCallEnded(index, arguments)]


LETTERS = 'ab é😺"\\{}\n\u2028'
TEXTS = st.text(LETTERS, max_size=6) | st.sampled_from(["", " ", "\n\n", "\t x"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(LETTERS, max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(LETTERS), inner),
    max_leaves=4,
)


@st.composite
def answers(draw: st.DrawFn) -> list[AnswerEvent]:
    """The events of an answer: reasoning, then text and calls, whole or cut off."""
    events: list[AnswerEvent] = [ReasoningDelta(text) for text in draw(st.lists(TEXTS, max_size=3))]
    calls = 0
    for kind in draw(st.lists(st.sampled_from(["text", "call"]), max_size=5)):
        if kind == "text":
            events += [TextDelta(text) for text in draw(st.lists(TEXTS, max_size=3))]
            continue
        text = json.dumps(draw(st.dictionaries(st.text(LETTERS, max_size=3), JSON, max_size=3)))
        cut = draw(st.integers(0, len(text)))
        events += call(calls, text, text[:cut], text[cut:])
        calls += 1
    if calls and isinstance(events[-1], ToolCallEnded) and draw(st.booleans()):
        # Cut off within the last call.
        return [*events[:-1], Finished("length")]
    return [*events, Finished("tool_calls" if calls else "stop")]
