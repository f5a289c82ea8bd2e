"""GPT-OSS: messages on channels, calls among them.

https://cookbook.openai.com/articles/openai-harmony
"""

from __future__ import annotations

from dataclasses import dataclass

from mrs.server.conversation.call_object import copy_arguments
from mrs.server.conversation.event_sink import EventSink
from mrs.server.conversation.feed import Feed, Reading
from mrs.server.conversation.markers import Markers
from mrs.server.conversation.tool_formats.tool_format import ToolFormat

START = "<|start|>"
CHANNEL = "<|channel|>"
MESSAGE = "<|message|>"
CONSTRAIN = "<|constrain|>"
_HEADER_END = Markers((MESSAGE, START))
_CONTENT_END = Markers((START, CHANNEL, "<|end|>", "<|call|>", "<|return|>"))
_RECIPIENT = "to="
_FUNCTIONS = "functions."


class HarmonyFormat(ToolFormat):
    """A message to a function, on the channel ``commentary``."""

    name = "harmony"
    begins = (CHANNEL,)
    opening = f"{CHANNEL}commentary to="
    separator = f"{START}assistant{CHANNEL}commentary to="

    @classmethod
    def writes(cls, template: str) -> bool:
        """Its tokens."""
        return CHANNEL in template and MESSAGE in template

    def read(self, feed: Feed, sink: EventSink, marker: str) -> Reading[bool]:
        """Not by itself: see `HarmonyAnswers`."""
        raise NotImplementedError

    def around_arguments(self, name: str) -> tuple[str, str]:
        """The rest of the message's header."""
        return f"{_FUNCTIONS}{name} {CONSTRAIN}json{MESSAGE}", ""


@dataclass(frozen=True)
class HarmonyAnswers:
    """``analysis`` is reasoning, a message to a function is a call, and the rest is text."""

    def parse(self, feed: Feed, sink: EventSink) -> Reading[None]:
        """Read an answer, message by message."""
        mark = ""
        while not sink.complete and (yield from feed.peek()):
            if mark not in (START, CHANNEL):
                mark = yield from _header_mark(feed)
            if mark:
                mark = yield from _read_message(feed, sink, mark)
            else:
                mark = yield from feed.until(_CONTENT_END, sink.text)


def _header_mark(feed: Feed) -> Reading[str]:
    """Take what begins a header; "" where text stands without one."""
    yield from feed.spaces()
    for mark in (START, CHANNEL):
        if (yield from feed.accept(mark)):
            return mark
    # The prompt ends behind "<|start|>assistant", and this goes on with it.
    ahead = yield from feed.next_few(len(_RECIPIENT))
    return START if ahead == _RECIPIENT else ""


def _read_message(feed: Feed, sink: EventSink, mark: str) -> Reading[str]:
    """Take one message behind the mark that began its header; the mark that ended it."""
    pieces = [mark]
    if (yield from feed.until(_HEADER_END, pieces.append)) != MESSAGE:
        return START
    header = "".join(pieces)
    recipient = _recipient(header)
    if recipient and sink.knows(recipient):
        return (yield from _read_call(feed, sink, recipient))
    if _channel(header) != "analysis":
        return (yield from feed.until(_CONTENT_END, sink.text))
    sink.begin_reasoning()
    mark = yield from feed.until(_CONTENT_END, sink.reasoning)
    if mark:
        sink.end_reasoning()
    return mark


def _read_call(feed: Feed, sink: EventSink, name: str) -> Reading[str]:
    record = feed.start_record()
    good = yield from copy_arguments(feed, lambda: sink.begin(name), sink.arguments)
    left = feed.stop_record(record)
    if not sink.in_call:
        sink.text(left)
        return (yield from feed.until(_CONTENT_END, sink.text))
    if good:
        sink.end()
        return (yield from feed.until(_CONTENT_END, lambda _: None))
    mark = yield from feed.until(_CONTENT_END, sink.arguments)
    if mark:
        sink.end()
    return mark


def _recipient(header: str) -> str:
    _, _, after = header.partition("to=")
    name = after.replace(CHANNEL, " ").replace(CONSTRAIN, " ").split()
    return name[0].removeprefix(_FUNCTIONS) if name else ""


def _channel(header: str) -> str:
    _, _, after = header.partition(CHANNEL)
    words = after.split()
    return words[0] if words else ""
