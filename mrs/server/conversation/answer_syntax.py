"""What the answers of a model consist of, and the parser for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mrs.server.conversation.event_sink import EventSink
from mrs.server.conversation.feed import Emit, Feed, Reading
from mrs.server.conversation.markers import Markers
from mrs.server.conversation.reasoning import ReasoningFormat
from mrs.server.conversation.tool_formats.tool_format import ToolFormat


class AnswerSyntax(Protocol):
    """Splits the text of an answer into reasoning, text and calls."""

    def parse(self, feed: Feed, sink: EventSink) -> Reading[None]:
        """Read an answer to its end, or to where nothing more may come."""


@dataclass(frozen=True)
class TaggedAnswers:
    """Reasoning between two marks, then text and calls.

    Marks of reasoning count where an answer begins and behind calls; elsewhere they are text.

    Attributes:
        reasoning: the marks; None for a model that has none.
        opened: the prompt has begun the reasoning.
        tools: how calls are written; None if there may be none.
        marked_only: calls without a mark are text, although the format knows them.
    """

    reasoning: ReasoningFormat | None
    opened: bool
    tools: ToolFormat | None
    marked_only: bool = False

    def parse(self, feed: Feed, sink: EventSink) -> Reading[None]:
        """Read an answer."""
        if self.opened:
            yield from self._read_reasoning(feed, sink)
        yield from self._read_start(feed, sink)
        tools = self.tools
        begins = tools.begins if tools is not None else ()
        dropped = self.reasoning.text_marks if self.reasoning is not None else ()
        if not begins and not dropped:
            yield from _pass(feed, sink.text)
            return
        markers = Markers((*begins, *dropped))
        while not sink.complete:
            marker = yield from feed.until(markers, sink.text)
            if not marker:
                return
            if tools is None or marker in dropped:
                continue
            if (yield from read_calls(tools, feed, sink, marker)):
                yield from self._read_start(feed, sink)

    def _read_start(self, feed: Feed, sink: EventSink) -> Reading[None]:
        """Read what may stand only where something begins: reasoning, and calls without a mark."""
        spaces = yield from feed.spaces()
        reasoning = self.reasoning
        while reasoning and (yield from feed.accept(reasoning.opens)):
            spaces = ""
            yield from self._read_reasoning(feed, sink)
            yield from feed.spaces()
        sink.text(spaces)
        tools = self.tools
        if tools is None or self.marked_only or not tools.bare or sink.complete:
            return
        character = yield from feed.peek()
        if character and character in tools.bare:
            yield from read_calls(tools, feed, sink, "")

    def _read_reasoning(self, feed: Feed, sink: EventSink) -> Reading[None]:
        assert self.reasoning is not None
        sink.begin_reasoning()
        # A prompt may have begun it, and the model begin it once more.
        yield from feed.spaces()
        yield from feed.accept(self.reasoning.opens)
        if (yield from feed.until(Markers((self.reasoning.closes,)), sink.reasoning)):
            sink.end_reasoning()


def read_calls(tools: ToolFormat, feed: Feed, sink: EventSink, marker: str) -> Reading[bool]:
    """Read calls; what is none becomes text, or, if a call has begun, the rest of its arguments.

    Returns:
        whether there were calls.
    """
    before = sink.calls
    record = feed.start_record()
    record.append(marker)
    sink.on_progress = record.clear
    good = yield from tools.read(feed, sink, marker)
    sink.on_progress = None
    left = feed.stop_record(record)
    if good:
        return True
    if not sink.in_call:
        is_cut = not (yield from feed.peek())
        (sink.cut_call if is_cut else sink.text)(left)
        return sink.calls > before
    if not tools.ends:
        yield from _pass(feed, sink.arguments)
    elif (yield from feed.until(Markers(tools.ends), sink.arguments)):
        sink.end()
    return True


def _pass(feed: Feed, emit: Emit) -> Reading[None]:
    """Pass everything on to the end."""
    while (yield from feed.peek()):
        emit(feed.take_all())
