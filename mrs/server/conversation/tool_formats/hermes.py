"""Hermes, Qwen 2.5 and 3, Granite 4 and many others: a JSON object in ``<tool_call>`` tags.

https://github.com/NousResearch/Hermes-Function-Calling
"""

from __future__ import annotations

import json
from typing import ClassVar

from mrs.server.conversation.call_object import read_call_object
from mrs.server.conversation.event_sink import EventSink
from mrs.server.conversation.feed import Feed, Reading
from mrs.server.conversation.tool_formats.object_list import read_call_list
from mrs.server.conversation.tool_formats.tool_format import ToolFormat
from mrs.server.conversation.tool_formats.xml_function import read_xml_function

TOOL_CALL = "<tool_call>"
_END = "</tool_call>"


class HermesFormat(ToolFormat):
    """One object in each pair of tags."""

    name = "hermes"
    begins: ClassVar[tuple[str, ...]] = (TOOL_CALL,)
    ends: ClassVar[tuple[str, ...]] = (_END,)
    bare = "{"
    opening = TOOL_CALL + "\n"
    separator = f"\n{_END}\n{TOOL_CALL}\n"
    closing = "\n" + _END

    @classmethod
    def writes(cls, template: str) -> bool:
        """Its tag."""
        return TOOL_CALL in template

    def read(self, feed: Feed, sink: EventSink, marker: str) -> Reading[bool]:
        """Take what the tags hold; XML is understood as well as JSON."""
        if not marker:
            return (yield from read_call_object(feed, sink))
        yield from feed.spaces()
        is_xml = (yield from feed.peek()) == "<"
        reading = read_xml_function(feed, sink) if is_xml else read_call_list(feed, sink)
        if not (yield from reading):
            return False
        yield from feed.spaces()
        yield from feed.accept(_END)
        return True

    def around_arguments(self, name: str) -> tuple[str, str]:
        """The object's other member."""
        return f'{{"name": {json.dumps(name)}, "arguments": ', "}"
