"""GLM: a name and a line break, then JSON (GLM-4) or tags for each argument (GLM-4.5 and later).

https://huggingface.co/zai-org/GLM-4-9B-0414, https://huggingface.co/zai-org/GLM-4.6
"""

from __future__ import annotations

import json
import string
from collections.abc import Sequence

from mrs.server.conversation.call_object import copy_arguments
from mrs.server.conversation.conversation import FunctionTool
from mrs.server.conversation.event_sink import EventSink
from mrs.server.conversation.feed import Feed, Reading
from mrs.server.conversation.lark import LarkBuilder
from mrs.server.conversation.markers import Markers
from mrs.server.conversation.tool_formats.hermes import TOOL_CALL
from mrs.server.conversation.tool_formats.members import Member, is_text, members, types_of
from mrs.server.conversation.tool_formats.pythonic import read_name
from mrs.server.conversation.tool_formats.tool_format import Call, ToolFormat
from mrs.server.conversation.tool_formats.xml_function import copy_parameter

_END = "</tool_call>"
_KEY, _KEY_END = "<arg_key>", "</arg_key>"
_VALUE, _VALUE_END = "<arg_value>", "</arg_value>"
_MAX_KEY = 256


class GlmLineFormat(ToolFormat):
    """GLM-4: the name where an answer begins, and JSON on the next line."""

    name = "glm4"
    bare = string.ascii_letters + "_"
    separator = "\n"

    @classmethod
    def writes(cls, template: str) -> bool:
        """The role of results, without the tags of later ones."""
        return "<|observation|>" in template and TOOL_CALL not in template

    def read(self, feed: Feed, sink: EventSink, marker: str) -> Reading[bool]:
        """Take calls, one behind the other."""
        while True:
            name = yield from read_name(feed)
            if not sink.knows(name) or not (yield from feed.accept("\n")):
                return False
            if not (yield from copy_arguments(feed, lambda: sink.begin(name), sink.arguments)):  # noqa: B023
                return False
            sink.end()
            yield from feed.spaces()
            if sink.complete or not (yield from feed.peek()):
                return True

    def around_arguments(self, name: str) -> tuple[str, str]:
        """The line before."""
        return name + "\n", ""

    def no_call(self, tools: Sequence[FunctionTool]) -> str:
        """A terminal for text that does not begin with a name and a line break."""
        names = "|".join(tool.name.replace(".", r"\.").replace("/", r"\/") for tool in tools)
        return rf"/(?s:.*)/ & ~/[ \t\r\n]*({names})\n(?s:.*)/"


class GlmFormat(ToolFormat):
    """GLM-4.5 and later: a pair of tags around all, and pairs for key and value."""

    name = "glm"
    begins = (TOOL_CALL,)
    ends = (_END,)
    opening = TOOL_CALL
    separator = f"{_END}\n{TOOL_CALL}"
    closing = _END

    @classmethod
    def writes(cls, template: str) -> bool:
        """Its tags."""
        return TOOL_CALL in template and _KEY in template

    def read(self, feed: Feed, sink: EventSink, marker: str) -> Reading[bool]:
        """Take one call."""
        yield from feed.spaces()
        name = yield from read_name(feed)
        if not sink.knows(name):
            return False
        sink.begin(name)
        sink.arguments("{")
        first = True
        while True:
            yield from feed.spaces()
            if (yield from feed.accept(_END)):
                sink.arguments("}")
                sink.end()
                return True
            if not (yield from feed.accept(_KEY)):
                return False
            pieces: list[str] = []
            found = yield from feed.until(Markers((_KEY_END,)), pieces.append)
            key = "".join(pieces)
            yield from feed.spaces()
            if not found or len(key) > _MAX_KEY or not (yield from feed.accept(_VALUE)):
                sink.arguments(key)
                return False
            sink.arguments(("" if first else ", ") + json.dumps(key, ensure_ascii=False) + ": ")
            first = False
            kinds = types_of(sink.parameters(name), key)
            if not (
                yield from copy_parameter(
                    feed, sink.arguments, kinds, padded=False, end=Markers((_VALUE_END,))
                )
            ):
                return False

    def around_arguments(self, name: str) -> tuple[str, str]:
        """The line with the name."""
        return name + "\n", ""

    def write_call(self, call: Call) -> Sequence[str]:
        """A line for each key and each value."""
        name, arguments = call
        before, after = self.around_arguments(name)
        lines = (_line(key, _text(value)) for key, value in arguments.items())
        return (before + "".join(lines) + after,)

    def call_grammar(self, tool: FunctionTool, lark: LarkBuilder) -> str:
        """Arguments in the order of the schema."""
        before, _ = self.around_arguments(tool.name)
        lines = [self._line_grammar(member, tool, lark) for member in members(tool)]
        return " ".join((lark.literal(before), *lines))

    def _line_grammar(self, member: Member, tool: FunctionTool, lark: LarkBuilder) -> str:
        head = lark.literal(f"{_KEY}{member.name}{_KEY_END}\n{_VALUE}")
        if not is_text(tool.parameters or {}, member.name):
            value = f"{lark.json(member.schema)} {lark.literal(_VALUE_END)}"
        else:
            value = member.choice_grammar(lark, _VALUE_END) or lark.text_up_to(_VALUE_END)
        line = f"{head} {value} {lark.literal(chr(10))}"
        return line if member.required else f"({line})?"


def _line(key: str, value: str) -> str:
    return f"{_KEY}{key}{_KEY_END}\n{_VALUE}{value}{_VALUE_END}\n"


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
