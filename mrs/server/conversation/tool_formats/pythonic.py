"""``[name(key=value), ...]``: calls as a Python list; of Llama 3.2 and 4, Gemma 3 and others.

https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_2/
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mrs.server.conversation.conversation import FunctionTool
from mrs.server.conversation.event_sink import EventSink
from mrs.server.conversation.feed import Feed, Reading
from mrs.server.conversation.lark import LarkBuilder
from mrs.server.conversation.python_text import copy_python_value, read_word
from mrs.server.conversation.tool_checks import NAME_MARKS
from mrs.server.conversation.tool_formats.members import Member, members, ordered
from mrs.server.conversation.tool_formats.tool_format import Call, ToolFormat

_MAX_KEY = 256


class PythonicFormat(ToolFormat):
    """A list of calls, where an answer begins."""

    name = "pythonic"
    bare = "["
    opening = "["
    separator = ", "
    closing = "]"

    @classmethod
    def writes(cls, template: str) -> bool:
        """What such templates tell the model to do."""
        return "[func_name1(" in template

    def read(self, feed: Feed, sink: EventSink, marker: str) -> Reading[bool]:
        """Take a list of calls."""
        return (yield from read_python_calls(feed, sink))

    def around_arguments(self, name: str) -> tuple[str, str]:
        """The parentheses."""
        return name + "(", ")"

    def write_call(self, call: Call) -> Sequence[str]:
        """With keyword arguments."""
        name, arguments = call
        before, after = self.around_arguments(name)
        written = ", ".join(f"{key}={python_literal(value)}" for key, value in arguments.items())
        return (before + written + after,)

    def call_grammar(self, tool: FunctionTool, lark: LarkBuilder) -> str:
        """Keyword arguments in the order of the schema, their values as JSON."""
        before, after = self.around_arguments(tool.name)

        def argument(member: Member) -> str:
            return f"{lark.literal(member.name + '=')} {lark.json(member.schema)}"

        arguments = ordered(members(tool), argument, ", ", lark)
        return f"{lark.literal(before)} {arguments} {lark.literal(after)}"


def read_python_calls(feed: Feed, sink: EventSink) -> Reading[bool]:
    """Take ``[f(a=1), g()]``, or calls without the brackets."""
    in_list = yield from feed.accept("[")
    while True:
        yield from feed.spaces()
        if not (yield from read_python_call(feed, sink)):
            return False
        if sink.complete:
            return True
        if not in_list:
            return True
        yield from feed.spaces()
        if (yield from feed.accept("]")):
            return True
        if not (yield from feed.accept(",")):
            return False


def read_python_call(feed: Feed, sink: EventSink) -> Reading[bool]:
    """Take ``f(a=1, b="x")``; arguments without a name are those of the schema, in its order."""
    name = yield from read_name(feed)
    if not sink.knows(name) or not (yield from feed.accept("(")):
        return False
    sink.begin(name)
    sink.arguments("{")
    properties = sink.parameters(name).get("properties")
    unnamed = iter(properties if isinstance(properties, Mapping) else ())
    first = True
    while True:
        yield from feed.spaces()
        if (yield from feed.accept(")")):
            sink.arguments("}")
            sink.end()
            return True
        if not first and not (yield from feed.accept(",")):
            return False
        yield from feed.spaces()
        if first or (yield from feed.peek()) != ")":
            prefix = "" if first else ", "
            if not (yield from _copy_argument(feed, sink, prefix, next(unnamed, None))):
                return False
        first = False


def _copy_argument(feed: Feed, sink: EventSink, prefix: str, unnamed: str | None) -> Reading[bool]:
    # No literal begins with a letter that is followed by letters and "=".
    key: str | None = unnamed
    if (yield from _begins_keyword(feed)):
        key = yield from read_word(feed)
        yield from feed.spaces()
        if not (yield from feed.accept("=")):
            sink.arguments(prefix + key)
            return False
    if key is None:
        return False
    sink.arguments(prefix + json.dumps(key, ensure_ascii=False) + ": ")
    return (yield from copy_python_value(feed, sink.arguments))


def _begins_keyword(feed: Feed) -> Reading[bool]:
    count = 1
    while True:
        ahead = yield from feed.next_few(count)
        if len(ahead) < count:
            return False
        last = ahead[-1]
        if last == "=" or last == " ":
            return count > 1
        if not (last.isalnum() or last == "_") or not (ahead[0].isalpha() or ahead[0] == "_"):
            return False
        count += 1
        if count > _MAX_KEY:
            return False


def read_name(feed: Feed) -> Reading[str]:
    """Take the name of a function."""
    letters: list[str] = []
    while len(letters) < _MAX_KEY:
        character = yield from feed.peek()
        if not character or not (character.isalnum() or character in NAME_MARKS):
            break
        letters.append(feed.take(1))
    # So Llama calls its built-in tools.
    return "".join(letters).removesuffix(".call")


def python_literal(value: Any) -> str:
    """A JSON value as Python writes it."""
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, Mapping):
        pairs = (f"{python_literal(key)}: {python_literal(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(python_literal, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
