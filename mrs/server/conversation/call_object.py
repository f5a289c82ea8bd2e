"""A call as a JSON object: ``{"name": ..., "arguments": {...}}`` and its relatives."""

from __future__ import annotations

import json
from collections.abc import Callable

from mrs.server.conversation.event_sink import EventSink
from mrs.server.conversation.feed import Feed, Reading
from mrs.server.conversation.json_text import copy_value, loads, read_string, read_value

_NAMES = frozenset({"name", "tool_name", "function_name"})
_ARGUMENTS = frozenset({"arguments", "parameters", "args"})
_OTHERS = frozenset({"id", "type", "tool_call_id", "index", "call_id"})


def read_call_object(feed: Feed, sink: EventSink) -> Reading[bool]:
    """Take one object that stands for a call.

    The call begins as soon as its name is known and its arguments begin. An object with other
    members, of an unknown tool, or without a name is no call.

    Returns:
        whether it was one; if a call has begun by then, what follows is the rest of it.
    """
    if not (yield from feed.accept("{")):
        return False
    call = _CallObject(feed, sink)
    return (yield from call.read_members(nested=False)) and call.end()


class _CallObject:
    def __init__(self, feed: Feed, sink: EventSink) -> None:
        self._feed = feed
        self._sink = sink
        self._name: str | None = None
        self._early_arguments: str | None = None

    def read_members(self, *, nested: bool) -> Reading[bool]:
        feed = self._feed
        while True:
            yield from feed.spaces()
            key = yield from read_string(feed)
            yield from feed.spaces()
            if key is None or not (yield from feed.accept(":")):
                return False
            yield from feed.spaces()
            if not (yield from self._read_member(key, nested=nested)):
                return False
            yield from feed.spaces()
            if (yield from feed.accept("}")):
                return True
            if not (yield from feed.accept(",")):
                return False

    def end(self) -> bool:
        if self._name is None:
            return False
        if not self._sink.in_call:
            self._sink.begin(self._name)
            self._sink.arguments(self._early_arguments or "{}")
        self._sink.end()
        return True

    def _read_member(self, key: str, *, nested: bool) -> Reading[bool]:
        feed = self._feed
        if key == "function" and not nested and (yield from feed.accept("{")):
            return (yield from self.read_members(nested=True))
        if key in _NAMES or key == "function":
            if self._name is not None:
                return False
            self._name = yield from read_string(feed)
            return self._name is not None and self._sink.knows(self._name)
        if key in _ARGUMENTS:
            return (yield from self._read_arguments())
        return key in _OTHERS and (yield from read_value(feed)) is not None

    def _read_arguments(self) -> Reading[bool]:
        if self._sink.in_call or self._early_arguments is not None:
            return False
        if self._name is None:
            pieces: list[str] = []
            good = yield from copy_arguments(self._feed, lambda: None, pieces.append)
            self._early_arguments = "".join(pieces)
            return good
        name = self._name
        return (
            yield from copy_arguments(
                self._feed, lambda: self._sink.begin(name), self._sink.arguments
            )
        )


def copy_arguments(
    feed: Feed, begin: Callable[[], None], emit: Callable[[str], None]
) -> Reading[bool]:
    """Pass an object of arguments on as it comes, and tell when it begins.

    ``null`` and an object that is written as text inside of a string, which some models do, are
    understood too.
    """
    yield from feed.spaces()
    if (yield from feed.peek()) == "{":
        begin()
        return (yield from copy_value(feed, emit))
    text = yield from read_value(feed)
    value = None if text is None else loads(text)
    if isinstance(value, str):
        value = loads(value) if value.strip() else {}
    elif text == "null":
        value = {}
    if not isinstance(value, dict):
        return False
    begin()
    emit(json.dumps(value, ensure_ascii=False))
    return True
