"""Llama 3.x: a JSON object, where an answer begins or behind ``<|python_tag|>``.

https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_1/
"""

from __future__ import annotations

import json

from mrs.server.conversation.call_object import read_call_object
from mrs.server.conversation.event_sink import EventSink
from mrs.server.conversation.feed import Feed, Reading
from mrs.server.conversation.tool_formats.pythonic import read_python_calls
from mrs.server.conversation.tool_formats.tool_format import ToolFormat

PYTHON_TAG = "<|python_tag|>"


class LlamaFormat(ToolFormat):
    """Objects with ``parameters``; semicolons between several."""

    name = "llama"
    begins = (PYTHON_TAG,)
    bare = "{["
    separator = "; "

    @classmethod
    def writes(cls, template: str) -> bool:
        """What its templates have in common."""
        return PYTHON_TAG in template or "Environment: ipython" in template

    def read(self, feed: Feed, sink: EventSink, marker: str) -> Reading[bool]:
        """Take objects, or, as the small ones write them, Python calls."""
        yield from feed.spaces()
        if (yield from feed.peek()) != "{":
            return (yield from read_python_calls(feed, sink))
        while True:
            if not (yield from read_call_object(feed, sink)):
                return False
            if sink.complete:
                return True
            yield from feed.spaces()
            if not (yield from feed.accept(";")):
                return True
            yield from feed.spaces()
            yield from feed.accept(PYTHON_TAG)

    def around_arguments(self, name: str) -> tuple[str, str]:
        """The object's other member."""
        return f'{{"name": {json.dumps(name)}, "parameters": ', "}"
