"""DeepSeek V2, V3, R1 and V3.1: a token for each part of a call.

https://huggingface.co/deepseek-ai/DeepSeek-V3.1
"""

from __future__ import annotations

from mrs.server.conversation.call_object import copy_arguments
from mrs.server.conversation.event_sink import EventSink
from mrs.server.conversation.feed import Feed, Reading
from mrs.server.conversation.markers import Markers
from mrs.server.conversation.tool_formats.tool_format import ToolFormat

_CALLS = "<｜tool▁calls▁begin｜>"
_CALLS_END = "<｜tool▁calls▁end｜>"
_CALL = "<｜tool▁call▁begin｜>"
_CALL_END = "<｜tool▁call▁end｜>"
_SEPARATOR = "<｜tool▁sep｜>"
_FENCE = "```json"
DEEPSEEK_TOKENS = (_CALLS, _CALLS_END, _CALL, _CALL_END, _SEPARATOR)


class DeepSeekFormat(ToolFormat):
    """V3.1: the name and the arguments."""

    name = "deepseek_v31"
    begins = (_CALLS, _CALL)
    ends = (_CALL_END,)
    opening = _CALLS
    closing = _CALLS_END

    @classmethod
    def writes(cls, template: str) -> bool:
        """Its token."""
        return _CALL in template

    def read(self, feed: Feed, sink: EventSink, marker: str) -> Reading[bool]:
        """Take calls of either form."""
        if marker == _CALLS:
            yield from feed.spaces()
            if not (yield from feed.accept(_CALL)):
                return False
        while True:
            if not (yield from _read_call(feed, sink)):
                return False
            if sink.complete:
                return True
            yield from feed.spaces()
            if not (yield from feed.accept(_CALL)):
                break
        yield from feed.accept(_CALLS_END)
        return True

    def around_arguments(self, name: str) -> tuple[str, str]:
        """The tokens."""
        return f"{_CALL}{name}{_SEPARATOR}", _CALL_END


class DeepSeekFencedFormat(DeepSeekFormat):
    """V2, V3 and R1: a kind, the name, and the arguments in a fenced block."""

    name = "deepseek"
    separator = "\n"

    @classmethod
    def writes(cls, template: str) -> bool:
        """Its token and the fence."""
        return _CALL in template and _FENCE in template

    def around_arguments(self, name: str) -> tuple[str, str]:
        """The tokens and the fence."""
        return f"{_CALL}function{_SEPARATOR}{name}\n{_FENCE}\n", f"\n```{_CALL_END}"


_NAME_END = Markers((_SEPARATOR, _CALL_END))
_LINE_END = Markers(("\n", _CALL_END))


def _read_call(feed: Feed, sink: EventSink) -> Reading[bool]:
    pieces: list[str] = []
    if (yield from feed.until(_NAME_END, pieces.append)) != _SEPARATOR:
        return False
    name = "".join(pieces).strip()
    yield from feed.spaces()
    if (yield from feed.peek()) != "{":
        pieces = []
        yield from feed.until(_LINE_END, pieces.append)
        name = "".join(pieces).strip()
        yield from feed.spaces()
        yield from feed.accept(_FENCE)
    if not sink.knows(name):
        return False
    if not (yield from copy_arguments(feed, lambda: sink.begin(name), sink.arguments)):
        return False
    sink.end()
    yield from feed.spaces()
    yield from feed.accept("```")
    yield from feed.accept(_CALL_END)
    return True
