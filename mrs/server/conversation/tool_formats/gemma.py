"""Gemma: Python in a fenced block (Gemma 3), or tokens around a notation of its own.

https://ai.google.dev/gemma/docs/capabilities/function-calling
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from mrs.server.conversation.conversation import FunctionTool
from mrs.server.conversation.event_sink import EventSink
from mrs.server.conversation.feed import Emit, Feed, Reading
from mrs.server.conversation.json_text import copy_value
from mrs.server.conversation.lark import LarkBuilder, one_of
from mrs.server.conversation.markers import Markers
from mrs.server.conversation.tool_formats.members import Member, members, ordered
from mrs.server.conversation.tool_formats.pythonic import PythonicFormat, read_python_calls
from mrs.server.conversation.tool_formats.tool_format import Call, ToolFormat

_FENCE = "```tool_code"
_FENCE_END = "```"
_MAX_DEPTH = 32
_MAX_KEY = 256


class GemmaCodeFormat(PythonicFormat):
    """Gemma 3: calls in a block of ``tool_code``."""

    name = "gemma_tool_code"
    begins = (_FENCE,)
    ends = (_FENCE_END,)
    bare = ""
    opening = _FENCE + "\n"
    separator = "\n"
    closing = "\n" + _FENCE_END

    @classmethod
    def writes(cls, template: str) -> bool:
        """What its template says."""
        return "tool_code" in template

    def read(self, feed: Feed, sink: EventSink, marker: str) -> Reading[bool]:
        """Take calls, one a line, up to the end of the block."""
        while True:
            yield from feed.spaces()
            if (yield from feed.accept(_FENCE_END)):
                return sink.calls > 0
            if not (yield from read_python_calls(feed, sink)):
                return False
            if sink.complete:
                return True
            yield from feed.spaces()
            if not (yield from feed.peek()):
                return True


class GemmaFormat(ToolFormat):
    """Gemma 4: ``call:name{key:value}``, with a token for a quote."""

    name = "gemma"
    begins = ("<|tool_call>",)
    ends = ("<tool_call|>",)
    opening = "<|tool_call>"
    separator = "<tool_call|><|tool_call>"
    closing = "<tool_call|>"
    quote: ClassVar[str] = '<|"|>'

    @classmethod
    def writes(cls, template: str) -> bool:
        """Its token."""
        return cls.begins[0] in template

    def read(self, feed: Feed, sink: EventSink, marker: str) -> Reading[bool]:
        """Take one call and the token that ends it."""
        yield from feed.spaces()
        if not (yield from feed.accept("call:")):
            return False
        pieces: list[str] = []
        found = yield from feed.until(Markers(("{",)), pieces.append)
        name = "".join(pieces).strip()
        if not found or not sink.knows(name):
            return False
        sink.begin(name)
        if not (yield from self._copy_members(feed, sink.arguments, 0)):
            return False
        sink.end()
        yield from feed.spaces()
        yield from feed.accept(self.ends[0])
        return True

    def around_arguments(self, name: str) -> tuple[str, str]:
        """The braces."""
        return f"call:{name}{{", "}"

    def write_call(self, call: Call) -> Sequence[str]:
        """With keys that are not quoted."""
        name, arguments = call
        before, after = self.around_arguments(name)
        return (before + self._written_members(arguments) + after,)

    def call_grammar(self, tool: FunctionTool, lark: LarkBuilder) -> str:
        """Keys in the order of the schema; text is free but for where a schema lists it."""
        before, after = self.around_arguments(tool.name)

        def member(one: Member) -> str:
            return f"{lark.literal(one.name + ':')} {self._value_grammar(one, lark)}"

        arguments = ordered(members(tool), member, ",", lark)
        return f"{lark.literal(before)} {arguments} {lark.literal(after)}"

    def _value_grammar(self, member: Member, lark: LarkBuilder) -> str:
        schema = member.schema
        choices = schema.get("enum")
        if isinstance(choices, list) and all(isinstance(choice, str) for choice in choices):
            return one_of([lark.literal(f"{self.quote}{choice}{self.quote}") for choice in choices])
        if schema.get("type") == "string":
            return f"{lark.literal(self.quote)} {lark.text_up_to(self.quote)}"
        # What is nested is read as JSON too.
        return lark.json(schema)

    def _copy_members(self, feed: Feed, emit: Emit, depth: int) -> Reading[bool]:
        """Take what stands between braces; the first one was taken."""
        emit("{")
        first = True
        while True:
            yield from feed.spaces()
            if (yield from feed.accept("}")):
                emit("}")
                return True
            if not first:
                if not (yield from feed.accept(",")):
                    return False
                emit(", ")
            first = False
            key = yield from self._read_key(feed, emit)
            if key is None:
                return False
            emit(json.dumps(key, ensure_ascii=False) + ": ")
            if not (yield from self._copy_value(feed, emit, depth + 1)):
                return False

    def _read_key(self, feed: Feed, emit: Emit) -> Reading[str | None]:
        pieces: list[str] = []
        found = yield from feed.until(Markers((":", "}", ",")), pieces.append)
        key = "".join(pieces).strip().removeprefix(self.quote).removesuffix(self.quote)
        key = key.strip('"')
        if found == ":" and 0 < len(key) <= _MAX_KEY:
            return key
        emit("".join(pieces) + found)
        return None

    def _copy_value(self, feed: Feed, emit: Emit, depth: int) -> Reading[bool]:
        yield from feed.spaces()
        if depth > _MAX_DEPTH:
            return False
        if (yield from feed.accept(self.quote)):
            emit('"')
            found = yield from feed.until(
                Markers((self.quote,)),
                lambda piece: emit(json.dumps(piece, ensure_ascii=False)[1:-1]),
            )
            emit('"' if found else "")
            return bool(found)
        if (yield from feed.accept("{")):
            return (yield from self._copy_members(feed, emit, depth))
        if (yield from feed.accept("[")):
            return (yield from self._copy_items(feed, emit, depth))
        return (yield from copy_value(feed, emit))

    def _copy_items(self, feed: Feed, emit: Emit, depth: int) -> Reading[bool]:
        emit("[")
        first = True
        while True:
            yield from feed.spaces()
            if (yield from feed.accept("]")):
                emit("]")
                return True
            if not first:
                if not (yield from feed.accept(",")):
                    return False
                emit(", ")
            first = False
            if not (yield from self._copy_value(feed, emit, depth + 1)):
                return False

    def _written(self, value: Any) -> str:
        if isinstance(value, str):
            return self.quote + value + self.quote
        if isinstance(value, Mapping):
            return "{" + self._written_members(value) + "}"
        if isinstance(value, (list, tuple)):
            return "[" + ",".join(map(self._written, value)) + "]"
        return json.dumps(value)

    def _written_members(self, arguments: Mapping[str, Any]) -> str:
        return ",".join(f"{key}:{self._written(value)}" for key, value in arguments.items())


class FunctionGemmaFormat(GemmaFormat):
    """FunctionGemma: the same with other tokens."""

    name = "function_gemma"
    begins = ("<start_function_call>",)
    ends = ("<end_function_call>",)
    opening = "<start_function_call>"
    separator = "<end_function_call><start_function_call>"
    closing = "<end_function_call>"
    quote = "<escape>"
