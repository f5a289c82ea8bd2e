"""``<function=name><parameter=key>value</parameter></function>``: calls as a kind of XML.

The values are text as it is, not escaped and not quoted; what they mean depends on the schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mrs.server.conversation.event_sink import EventSink
from mrs.server.conversation.feed import Emit, Feed, Reading
from mrs.server.conversation.json_text import loads
from mrs.server.conversation.markers import Markers
from mrs.server.conversation.tool_formats.members import TEXT, types_of

FUNCTION = "<function="
FUNCTION_END = "</function>"
PARAMETER = "<parameter="
PARAMETER_END = "</parameter>"

_MAX_NAME = 256
_NAME_END = Markers((">", "\n", "<"))
_VALUE_END = Markers((PARAMETER_END,))
_PYTHON = {"True": "true", "False": "false", "None": "null"}


def read_xml_function(feed: Feed, sink: EventSink, *, padded: bool = True) -> Reading[bool]:
    """Take one ``<function=...>`` element.

    Args:
        feed: the text.
        sink: gets the call.
        padded: a line break after an opening tag, and one before a closing tag, is no part of a
            value.
    """
    if not (yield from feed.accept(FUNCTION)):
        return False
    name = yield from read_name(feed, lambda _: None)
    if name is None or not sink.knows(name):
        return False
    sink.begin(name)
    sink.arguments("{")
    schema = sink.parameters(name)
    first = True
    while True:
        yield from feed.spaces()
        if (yield from feed.accept(FUNCTION_END)):
            sink.arguments("}")
            sink.end()
            return True
        if not (yield from feed.accept(PARAMETER)):
            return False
        key = yield from read_name(feed, sink.arguments)
        if key is None:
            return False
        sink.arguments(("" if first else ", ") + json.dumps(key, ensure_ascii=False) + ": ")
        first = False
        kinds = types_of(schema, key)
        if not (yield from copy_parameter(feed, sink.arguments, kinds, padded=padded)):
            return False


def read_name(feed: Feed, lose: Emit) -> Reading[str | None]:
    """Take a name up to the bracket that ends it; what is none goes to ``lose``."""
    pieces: list[str] = []
    found = yield from feed.until(_NAME_END, pieces.append)
    text = "".join(pieces)
    name = text.strip().strip("\"'")
    if found == ">" and 0 < len(name) <= _MAX_NAME:
        return name
    lose(text + found)
    return None


def copy_parameter(
    feed: Feed, emit: Emit, kinds: frozenset[str], *, padded: bool, end: Markers = _VALUE_END
) -> Reading[bool]:
    """Pass a value on as JSON: piece by piece if it is text, else at its end.

    Args:
        feed: the text.
        emit: gets the value.
        kinds: JSON types that it may have; empty if that is not known.
        padded: see `read_xml_function`.
        end: the tag that ends it.

    Returns:
        whether it has ended.
    """
    value = _StringValue(emit, padded) if kinds == TEXT else _TypedValue(emit, kinds, padded)
    if padded:
        yield from feed.accept("\n")
    if (yield from feed.until(end, value.add)):
        value.end()
        return True
    value.cut()
    return False


class _StringValue:
    """A value that is text."""

    def __init__(self, emit: Emit, padded: bool) -> None:
        self._emit = emit
        self._padded = padded
        self._held = ""
        emit('"')

    def add(self, piece: str) -> None:
        piece = self._held + piece
        self._held = "\n" if self._padded and piece.endswith("\n") else ""
        piece = piece[: len(piece) - len(self._held)]
        self._emit(json.dumps(piece, ensure_ascii=False)[1:-1])

    def end(self) -> None:
        self._emit('"')

    def cut(self) -> None:
        """The answer has ended within the value."""


class _TypedValue:
    """A value that may be something else than text."""

    def __init__(self, emit: Emit, kinds: frozenset[str], padded: bool) -> None:
        self._emit = emit
        self._padded = padded
        self._kinds = kinds
        self._pieces: list[str] = []

    def add(self, piece: str) -> None:
        self._pieces.append(piece)

    def end(self) -> None:
        text = "".join(self._pieces)
        if self._padded:
            text = text.removesuffix("\n")
        self._emit(typed_json(text, self._kinds))

    def cut(self) -> None:
        """The answer has ended within the value."""
        self._emit("".join(self._pieces))


def typed_json(text: str, kinds: frozenset[str]) -> str:
    """What stands for a value, as JSON: itself if it is JSON of a kind that may be, else a string.

    >>> typed_json("5", frozenset({"integer"})), typed_json("5", frozenset({"string"}))
    ('5', '"5"')
    """
    bare = text.strip()
    bare = _PYTHON.get(bare, bare)
    value = loads(bare)
    if value is None and bare != "null":
        return json.dumps(text, ensure_ascii=False)
    fits = "string" not in kinds or (not isinstance(value, str) and _kind(value) in kinds)
    return bare if fits else json.dumps(text, ensure_ascii=False)


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "object"
    names = {list: "array", bool: "boolean", int: "integer", float: "number"}
    return names.get(type(value), "null")
