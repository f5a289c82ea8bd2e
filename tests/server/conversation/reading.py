"""Answers fed to a reader in pieces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mrs.runtime.generation import FinishReason, GenerationDelta
from mrs.server.conversation.answer_reader import AnswerReader, ParsingReader
from mrs.server.conversation.answer_syntax import AnswerSyntax, TaggedAnswers
from mrs.server.conversation.conversation import FunctionTool
from mrs.server.conversation.event_sink import EventSink
from mrs.server.conversation.events import (
    AnswerEvent,
    Finished,
    ReasoningDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallBegun,
    ToolCallEnded,
)
from mrs.server.conversation.reasoning import THINK, ReasoningFormat
from mrs.server.conversation.tool_formats import format_named
from mrs.server.conversation.tool_formats.harmony import HarmonyAnswers

WEATHER = FunctionTool(
    "get_weather",
    "Weather of a place.",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "options": {"type": "object"},
        },
        "required": ["city"],
    },
)
ADD = FunctionTool("add", "Adds.", {"type": "object", "properties": {"a": {}, "b": {}}})
TOOLS: Mapping[str, FunctionTool] = {tool.name: tool for tool in (WEATHER, ADD)}


def reader_of(
    form: str | None,
    *,
    reasoning: ReasoningFormat | None = THINK,
    opened: bool = False,
    parallel: bool = True,
) -> AnswerReader:
    """A reader of answers with calls in the format of that name."""
    syntax: AnswerSyntax = HarmonyAnswers()
    if form != "harmony":
        syntax = TaggedAnswers(reasoning, opened, format_named(form) if form else None)
    ids = iter(f"id{number}" for number in range(100))
    sink = EventSink(TOOLS if form else {}, lambda: next(ids), parallel=parallel)
    return ParsingReader(syntax, sink)


def read(
    reader: AnswerReader, pieces: Iterable[str], finish: FinishReason = FinishReason.STOP
) -> list[AnswerEvent]:
    """The events of an answer that comes in these pieces, one a token, and then ends."""
    events = [event for piece in pieces for event in reader.read(GenerationDelta(0, piece, (7,)))]
    return [*events, *reader.read(GenerationDelta(0, "", (0,), finish))]


def joined(events: Sequence[AnswerEvent]) -> list[AnswerEvent]:
    """The events with neighbours of one kind put together."""
    result: list[AnswerEvent] = []
    for event in events:
        last = result[-1] if result else None
        match last, event:
            case TextDelta(), TextDelta():
                result[-1] = TextDelta(last.text + event.text)
            case ReasoningDelta(), ReasoningDelta():
                result[-1] = ReasoningDelta(last.text + event.text)
            case ToolCallArguments(), ToolCallArguments() if last.index == event.index:
                result[-1] = ToolCallArguments(last.index, last.fragment + event.fragment)
            case _:
                result.append(event)
    return [_uncounted(event) for event in result]


def _uncounted(event: AnswerEvent) -> AnswerEvent:
    # How many tokens were reasoning depends on how the text was cut.
    return Finished(event.reason, event.stop) if isinstance(event, Finished) else event


def call_events(index: int, name: str, arguments: str) -> list[AnswerEvent]:
    """The events of one call."""
    return [
        ToolCallBegun(index, f"id{index}", name),
        ToolCallArguments(index, arguments),
        ToolCallEnded(index, arguments),
    ]


def texts(events: Sequence[AnswerEvent]) -> str:
    """All text of an answer."""
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def calls(events: Sequence[AnswerEvent]) -> list[tuple[str, str]]:
    """Names and arguments of all calls that have ended."""
    names = {event.index: event.name for event in events if isinstance(event, ToolCallBegun)}
    return [
        (names[event.index], event.arguments)
        for event in events
        if isinstance(event, ToolCallEnded)
    ]


def cut(text: str, places: Iterable[Any]) -> list[str]:
    """A text cut at these places."""
    ends = sorted({int(place) % (len(text) + 1) for place in places} | {len(text)})
    starts = [0, *ends[:-1]]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]
