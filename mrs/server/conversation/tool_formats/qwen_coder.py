"""Qwen3-Coder, Qwen 3.5 and Seed-OSS: ``<function=...>`` elements in a pair of tags."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

from mrs.server.conversation.conversation import FunctionTool
from mrs.server.conversation.event_sink import EventSink
from mrs.server.conversation.feed import Feed, Reading
from mrs.server.conversation.lark import LarkBuilder
from mrs.server.conversation.tool_formats.hermes import TOOL_CALL, HermesFormat
from mrs.server.conversation.tool_formats.members import Member, is_text, members
from mrs.server.conversation.tool_formats.tool_format import Call
from mrs.server.conversation.tool_formats.xml_function import (
    FUNCTION,
    FUNCTION_END,
    PARAMETER,
    PARAMETER_END,
    read_xml_function,
)

_SEED_CALL = "<seed:tool_call>"
_SEED_END = "</seed:tool_call>"


class QwenCoderFormat(HermesFormat):
    """Values stand on lines of their own."""

    name = "qwen_coder"
    bare = ""
    padding: ClassVar[str] = "\n"

    @classmethod
    def writes(cls, template: str) -> bool:
        """Both of its tags."""
        return TOOL_CALL in template and FUNCTION in template

    def around_arguments(self, name: str) -> tuple[str, str]:
        """The element."""
        return f"{FUNCTION}{name}>\n", FUNCTION_END

    def write_call(self, call: Call) -> Sequence[str]:
        """One element for each argument."""
        name, arguments = call
        before, after = self.around_arguments(name)
        written = (self._around_value(key, _text(value)) for key, value in arguments.items())
        return (before + "".join(written) + after,)

    def call_grammar(self, tool: FunctionTool, lark: LarkBuilder) -> str:
        """Arguments in the order of the schema; text is free but for where a schema lists it."""
        before, after = self.around_arguments(tool.name)
        arguments = [self._member_grammar(member, tool, lark) for member in members(tool)]
        return " ".join((lark.literal(before), *arguments, lark.literal(after)))

    def _around_value(self, key: str, value: str) -> str:
        padding = self.padding
        return f"{PARAMETER}{key}>{padding}{value}{padding}{PARAMETER_END}\n"

    def _member_grammar(self, member: Member, tool: FunctionTool, lark: LarkBuilder) -> str:
        head = lark.literal(f"{PARAMETER}{member.name}>{self.padding}")
        end = self.padding + PARAMETER_END
        if not is_text(tool.parameters or {}, member.name):
            value = f"{lark.json(member.schema)} {lark.literal(end)}"
        else:
            value = member.choice_grammar(lark, end) or lark.text_up_to(end)
        whole = f"{head} {value} {lark.literal(chr(10))}"
        return whole if member.required else f"({whole})?"


class SeedFormat(QwenCoderFormat):
    """Seed-OSS: tags of its own, values without line breaks."""

    name = "seed"
    begins = (_SEED_CALL,)
    ends = (_SEED_END,)
    opening = _SEED_CALL + "\n"
    separator = f"\n{_SEED_END}\n{_SEED_CALL}\n"
    closing = "\n" + _SEED_END
    padding = ""

    @classmethod
    def writes(cls, template: str) -> bool:
        """Its tag."""
        return _SEED_CALL in template

    def read(self, feed: Feed, sink: EventSink, marker: str) -> Reading[bool]:
        """Take one element."""
        yield from feed.spaces()
        if not (yield from read_xml_function(feed, sink, padded=False)):
            return False
        yield from feed.spaces()
        yield from feed.accept(_SEED_END)
        return True


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
