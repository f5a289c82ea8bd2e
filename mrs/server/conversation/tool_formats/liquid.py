"""Liquid LFM2: Python calls between two tokens.

https://docs.liquid.ai/lfm/key-concepts/tool-use
"""

from __future__ import annotations

from mrs.server.conversation.event_sink import EventSink
from mrs.server.conversation.feed import Feed, Reading
from mrs.server.conversation.tool_formats.object_list import read_call_list
from mrs.server.conversation.tool_formats.pythonic import PythonicFormat, read_python_calls

_CALL = "<|tool_call_start|>"
_CALL_END = "<|tool_call_end|>"


class LiquidFormat(PythonicFormat):
    """The list and its tokens; asked for it, these models write JSON instead."""

    name = "liquid"
    begins = (_CALL,)
    ends = (_CALL_END,)
    bare = ""
    opening = _CALL + "["
    closing = "]" + _CALL_END

    @classmethod
    def writes(cls, template: str) -> bool:
        """Its token, or the words with which it lists tools."""
        return _CALL in template or "List of tools: " in template

    def read(self, feed: Feed, sink: EventSink, marker: str) -> Reading[bool]:
        """Take the list."""
        yield from feed.spaces()
        ahead = (yield from feed.next_few(2)).strip("[ \n")
        reading = read_call_list if ahead.startswith("{") else read_python_calls
        if not (yield from reading(feed, sink)):
            return False
        yield from feed.spaces()
        yield from feed.accept(_CALL_END)
        return True
