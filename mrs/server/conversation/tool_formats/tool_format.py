"""How one family of models writes its calls."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from mrs.runtime.control_text import ControlText, MixedText
from mrs.server.conversation.conversation import FunctionTool
from mrs.server.conversation.event_sink import EventSink
from mrs.server.conversation.feed import Feed, Reading
from mrs.server.conversation.lark import LarkBuilder, one_of

Call = tuple[str, Mapping[str, Any]]
"""A function's name, and the arguments."""


_MORE_MEMBERS = ("additionalProperties", "patternProperties", "$ref", "anyOf", "oneOf", "allOf")


def forced_schema(tool: FunctionTool) -> Mapping[str, Any]:
    """What forced arguments match: the tool's schema, without members that it does not name.

    Schemas that do not say so allow any others, and small models then make some up.
    """
    schema = tool.parameters or {}
    if not schema.get("properties") or any(keyword in schema for keyword in _MORE_MEMBERS):
        return {"type": "object", **schema}
    return {"type": "object", **schema, "additionalProperties": False}


class ToolFormat(ABC):
    """Reads, writes and forces calls.

    Several calls are written as ``opening``, calls with ``separator`` between them, ``closing``.

    Attributes:
        name: as the server's option and the documentation call it.
        begins: markers, each of which begins one call or several.
        ends: markers that end a call whose arguments are no JSON.
        bare: characters that may begin calls, without a marker, where an answer begins.
        opening: what is written before the first call.
        separator: between calls.
        closing: after the last.
        short_ids: ids of calls are nine characters.
    """

    name: ClassVar[str]
    begins: ClassVar[tuple[str, ...]] = ()
    ends: ClassVar[tuple[str, ...]] = ()
    bare: ClassVar[str] = ""
    opening: ClassVar[str] = ""
    separator: ClassVar[str] = ""
    closing: ClassVar[str] = ""
    short_ids: ClassVar[bool] = False

    @property
    def opens_with_mark(self) -> bool:
        """Calls, as they are written, begin with the first of ``begins``."""
        return bool(self.begins) and self.opening.startswith(self.begins[0])

    @classmethod
    @abstractmethod
    def writes(cls, template: str) -> bool:
        """Whether a chat template is of a model that writes its calls so."""

    @abstractmethod
    def read(self, feed: Feed, sink: EventSink, marker: str) -> Reading[bool]:
        """Take the calls after a marker, which is "" where a bare call may begin.

        Returns:
            whether they were calls; if not, what follows the last complete one is no call, or, if
            the sink is in a call, is the rest of its arguments.
        """

    @abstractmethod
    def around_arguments(self, name: str) -> tuple[str, str]:
        """What is written before and after the arguments of a call."""

    def no_call(self, tools: Sequence[FunctionTool]) -> str:
        """A terminal for text that begins no call without a mark."""
        spaces = r" \t\r\n"
        characters = self.bare.replace("[", r"\[")
        return f"/[{spaces}]*([^{spaces}{characters}](?s:.*))?/"

    def write_call(self, call: Call) -> Sequence[str]:
        """A call as the model writes it, in parts."""
        name, arguments = call
        before, after = self.around_arguments(name)
        return ControlText(before), json.dumps(arguments, ensure_ascii=False), ControlText(after)

    def call_grammar(self, tool: FunctionTool, lark: LarkBuilder) -> str:
        """What matches a call of this tool."""
        before, after = self.around_arguments(tool.name)
        schema = lark.json(forced_schema(tool))
        return f"{lark.literal(before)} {schema} {lark.literal(after)}"

    def write(self, calls: Sequence[Call]) -> MixedText:
        """Calls as the model writes them, their marks as control tokens where they are such."""
        parts: list[str] = [ControlText(self.opening)]
        for index, call in enumerate(calls):
            if index:
                parts.append(ControlText(self.separator))
            parts += self.write_call(call)
        return MixedText([*parts, ControlText(self.closing)])

    def calls_grammar(
        self,
        tools: Sequence[FunctionTool],
        lark: LarkBuilder,
        *,
        parallel: bool,
        after_marker: bool = False,
    ) -> str:
        """What matches one call, or several.

        Args:
            tools: those that may be called.
            lark: gets the rules.
            parallel: there may be several.
            after_marker: the first of ``begins`` has been matched.
        """
        call = lark.rule(one_of([self.call_grammar(tool, lark) for tool in tools]))
        opening = self.opening.removeprefix(self.begins[0]) if after_marker else self.opening
        more = f"({lark.literal(self.separator)} {call})*" if parallel else ""
        return f"{lark.literal(opening)} {call} {more} {lark.literal(self.closing)}"
