"""Mistral: ``[TOOL_CALLS]``, then a list of objects, or, in newer models, name and arguments.

https://docs.mistral.ai/cookbooks/concept-deep-dive-tokenization-tool_calling
"""

from __future__ import annotations

import json

from mrs.server.conversation.call_object import copy_arguments
from mrs.server.conversation.event_sink import EventSink
from mrs.server.conversation.feed import Feed, Reading
from mrs.server.conversation.markers import Markers
from mrs.server.conversation.tool_formats.object_list import read_call_list
from mrs.server.conversation.tool_formats.tool_format import ToolFormat

TOOL_CALLS = "[TOOL_CALLS]"
ARGS = "[ARGS]"
CALL_ID = "[CALL_ID]"
_NAME_END = Markers((ARGS, CALL_ID, "{"))
_MAX_NAME = 256


class MistralFormat(ToolFormat):
    """One list, of objects with ``name``, ``arguments`` and, in prompts, ``id``."""

    name = "mistral"
    begins = (TOOL_CALLS,)
    opening = TOOL_CALLS + "["
    separator = ", "
    closing = "]"
    short_ids = True

    @classmethod
    def writes(cls, template: str) -> bool:
        """Its mark."""
        return TOOL_CALLS in template

    def read(self, feed: Feed, sink: EventSink, marker: str) -> Reading[bool]:
        """Take the list, or one call of the newer form."""
        yield from feed.spaces()
        if (yield from feed.peek()) in ("[", "{"):
            return (yield from read_call_list(feed, sink))
        pieces: list[str] = []
        found = yield from feed.until(_NAME_END, pieces.append)
        name = "".join(pieces).strip()
        if not found or not sink.knows(name):
            return False
        if found == CALL_ID:
            found = yield from feed.until(_NAME_END, lambda _: None)
        if found == "{":
            feed.give_back(1)
        good = yield from copy_arguments(feed, lambda: sink.begin(name), sink.arguments)
        if good:
            sink.end()
        return good

    def around_arguments(self, name: str) -> tuple[str, str]:
        """The object's other member."""
        return f'{{"name": {json.dumps(name)}, "arguments": ', "}"


class MistralNameFormat(MistralFormat):
    """A mark for each call: ``[TOOL_CALLS]name[ARGS]{...}``."""

    name = "mistral_args"
    opening = TOOL_CALLS
    separator = TOOL_CALLS
    closing = ""

    @classmethod
    def writes(cls, template: str) -> bool:
        """Both marks."""
        return TOOL_CALLS in template and ARGS in template

    def around_arguments(self, name: str) -> tuple[str, str]:
        """The marks."""
        return name + ARGS, ""
