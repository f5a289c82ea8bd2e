"""Phi-4, Granite 3 and Command R: a mark and a JSON list of objects."""

from __future__ import annotations

import json

from mrs.server.conversation.event_sink import EventSink
from mrs.server.conversation.feed import Feed, Reading
from mrs.server.conversation.tool_formats.object_list import read_call_list
from mrs.server.conversation.tool_formats.tool_format import ToolFormat


class MarkedListFormat(ToolFormat):
    """The mark, the list, and perhaps another mark."""

    separator = ", "
    arguments_key = "arguments"
    name_key = "name"

    @classmethod
    def writes(cls, template: str) -> bool:
        """Its mark."""
        return cls.begins[0] in template

    def read(self, feed: Feed, sink: EventSink, marker: str) -> Reading[bool]:
        """Take the list and the mark that ends it."""
        if not (yield from read_call_list(feed, sink)):
            return False
        yield from feed.spaces()
        for end in self.ends:
            if (yield from feed.accept(end)):
                break
        return True

    def around_arguments(self, name: str) -> tuple[str, str]:
        """The object's other member."""
        return f'{{"{self.name_key}": {json.dumps(name)}, "{self.arguments_key}": ', "}"
