"""A JSON object and nothing else, where an answer begins; what most models understand."""

from __future__ import annotations

from mrs.server.conversation.event_sink import EventSink
from mrs.server.conversation.feed import Feed, Reading
from mrs.server.conversation.tool_formats.hermes import HermesFormat
from mrs.server.conversation.tool_formats.object_list import read_call_list


class BareJsonFormat(HermesFormat):
    """One object, or a list of them."""

    name = "json"
    begins = ()
    ends = ()
    bare = "{["
    opening = "["
    separator = ", "
    closing = "]"

    @classmethod
    def writes(cls, template: str) -> bool:
        """Never recognized: it has no mark of its own."""
        return False

    def read(self, feed: Feed, sink: EventSink, marker: str) -> Reading[bool]:
        """Take the object or the list."""
        return (yield from read_call_list(feed, sink))
