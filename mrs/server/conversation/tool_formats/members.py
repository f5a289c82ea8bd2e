"""The arguments of a tool one by one, for formats that do not write them as one JSON object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mrs.server.conversation.conversation import FunctionTool
from mrs.server.conversation.lark import LarkBuilder, one_of

TEXT = frozenset({"string"})
_SHARED = ("$defs", "definitions")


@dataclass(frozen=True)
class Member:
    """One argument.

    Attributes:
        name: of it.
        schema: of its value; complete, with the definitions that it may refer to.
        required: it may not be left out.
    """

    name: str
    schema: Mapping[str, Any]
    required: bool

    def choice_grammar(self, lark: LarkBuilder, end: str) -> str | None:
        """What matches one of the texts that the schema lists, and ``end``; None if it lists none.

        For texts that are written without quotes.
        """
        values = self.schema.get("enum", [self.schema.get("const")])
        choices = [lark.literal(value) for value in values if isinstance(value, str)]
        return f"{one_of(choices)} {lark.literal(end)}" if choices else None


def members(tool: FunctionTool) -> list[Member]:
    """The arguments that a tool's schema names."""
    schema = tool.parameters or {}
    properties = schema.get("properties")
    required = schema.get("required")
    names = required if isinstance(required, list) else ()
    shared = {key: schema[key] for key in _SHARED if key in schema}
    if not isinstance(properties, Mapping):
        return []
    return [
        Member(name, {**shared, **value} if isinstance(value, Mapping) else {}, name in names)
        for name, value in properties.items()
    ]


def is_text(schema: Mapping[str, Any], key: str) -> bool:
    """Whether a member of an object can be a string alone."""
    return types_of(schema, key) == TEXT


def types_of(schema: Mapping[str, Any], key: str) -> frozenset[str]:
    """The JSON types that a member of an object may have; empty if the schema does not tell."""
    properties = schema.get("properties")
    member = properties.get(key) if isinstance(properties, Mapping) else None
    if not isinstance(member, Mapping):
        return frozenset()
    return _types(member)


def _types(schema: Mapping[str, Any]) -> frozenset[str]:
    kind = schema.get("type")
    if isinstance(kind, str):
        return frozenset({kind})
    if isinstance(kind, list):
        return frozenset(filter(lambda one: isinstance(one, str), kind))
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if isinstance(values, list) and values and all(isinstance(value, str) for value in values):
        return TEXT
    options = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(options, list) and all(isinstance(option, Mapping) for option in options):
        found = [_types(option) for option in options]
        return frozenset().union(*found) if all(found) else frozenset()
    return frozenset()


def ordered(
    arguments: Sequence[Member],
    expression: Callable[[Member], str],
    separator: str,
    lark: LarkBuilder,
) -> str:
    """What matches the arguments in their order, with a separator between those that are there."""
    between = lark.literal(separator)
    rest = ""
    starts: list[str] = []
    for member in reversed(arguments):
        rule = lark.rule(expression(member))
        if member.required:
            starts = []
        starts.append(f"{rule} {rest}")
        following = f"{between} {rule}" if member.required else f"({between} {rule})?"
        rest = lark.rule(f"{following} {rest}")
    if not any(member.required for member in arguments):
        starts.append('""')
    return lark.rule(" | ".join(starts)) if starts else '""'
