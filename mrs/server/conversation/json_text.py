"""JSON that a model writes, followed character by character."""

from __future__ import annotations

import json
import re
from enum import Enum, auto
from typing import Any

from mrs.server.conversation.feed import SPACES, Emit, Feed, Reading

MAX_DEPTH = 100
MAX_KEY = 4096
_NUMBER = frozenset("+-.0123456789eE")
_IS_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_LITERALS = {"t": "true", "f": "false", "n": "null"}
_ESCAPES = frozenset('"\\/bfnrt')
_HEX = frozenset("0123456789abcdefABCDEF")
_CLOSERS = {"{": "}", "[": "]"}


class _Next(Enum):
    """What may come next."""

    VALUE = auto()
    VALUE_OR_CLOSE = auto()
    KEY = auto()
    KEY_OR_CLOSE = auto()
    COLON = auto()
    COMMA_OR_CLOSE = auto()


def copy_value(feed: Feed, emit: Emit) -> Reading[bool]:
    """Pass one JSON value on, piece by piece; white space before it is dropped.

    A control character in a string, which models write and JSON forbids, is passed on escaped.

    Returns:
        whether it was JSON; if not, the feed stands before the first character that cannot be.
    """
    yield from feed.spaces()
    open_brackets: list[str] = []
    state = _Next.VALUE
    while True:
        character = yield from feed.peek()
        if character in SPACES and character:
            emit((yield from feed.spaces()))
            continue
        following = yield from _step(feed, emit, state, character, open_brackets)
        if following is None:
            return False
        if following is _Next.COMMA_OR_CLOSE and not open_brackets:
            return True
        state = following


def _step(
    feed: Feed, emit: Emit, state: _Next, character: str, open_brackets: list[str]
) -> Reading[_Next | None]:
    """Take what comes next; what may come after it, or None if this may not come."""
    if state in (_Next.VALUE, _Next.VALUE_OR_CLOSE):
        if character == "]" and state is _Next.VALUE_OR_CLOSE:
            return _close(feed, emit, open_brackets)
        return (yield from _value(feed, emit, character, open_brackets))
    if state in (_Next.KEY, _Next.KEY_OR_CLOSE):
        if character == "}" and state is _Next.KEY_OR_CLOSE:
            return _close(feed, emit, open_brackets)
        good = character == '"' and (yield from _copy_string(feed, emit))
        return _Next.COLON if good else None
    if state is _Next.COLON:
        if character != ":":
            return None
        emit(feed.take(1))
        return _Next.VALUE
    if character == ",":
        emit(feed.take(1))
        return _Next.KEY if open_brackets[-1] == "}" else _Next.VALUE
    return _close(feed, emit, open_brackets) if character == open_brackets[-1] else None


def _close(feed: Feed, emit: Emit, open_brackets: list[str]) -> _Next:
    open_brackets.pop()
    emit(feed.take(1))
    return _Next.COMMA_OR_CLOSE


def _value(
    feed: Feed, emit: Emit, character: str, open_brackets: list[str]
) -> Reading[_Next | None]:
    if character in _CLOSERS:
        if len(open_brackets) >= MAX_DEPTH:
            return None
        open_brackets.append(_CLOSERS[character])
        emit(feed.take(1))
        return _Next.KEY_OR_CLOSE if character == "{" else _Next.VALUE_OR_CLOSE
    if character == '"':
        good = yield from _copy_string(feed, emit)
    elif character in _LITERALS:
        literal = _LITERALS[character]
        good = yield from feed.accept(literal)
        emit(literal if good else "")
    else:
        good = yield from _copy_number(feed, emit)
    return _Next.COMMA_OR_CLOSE if good else None


def _copy_number(feed: Feed, emit: Emit) -> Reading[bool]:
    number = yield from feed.run_of(_NUMBER)
    emit(number)
    return _IS_NUMBER.fullmatch(number) is not None


def _copy_string(feed: Feed, emit: Emit) -> Reading[bool]:
    emit(feed.take(1))
    while True:
        character = yield from feed.peek()
        if not character:
            return False
        if character == '"':
            emit(feed.take(1))
            return True
        if character == "\\":
            if not (yield from _copy_escape(feed, emit)):
                return False
        elif character < " ":
            emit(json.dumps(feed.take(1))[1:-1])
        else:
            emit(feed.take(feed.match(_PLAIN)))


def _copy_escape(feed: Feed, emit: Emit) -> Reading[bool]:
    # Whole or not at all, so that a fragment can be shown by clients that decode as they go.
    kind = (yield from feed.next_few(2))[1:]
    if kind in _ESCAPES and kind:
        emit(feed.take(2))
        return True
    if kind != "u":
        return False
    digits = (yield from feed.next_few(6))[2:]
    if len(digits) < 4 or not _HEX.issuperset(digits):
        return False
    emit(feed.take(6))
    return True


def read_value(feed: Feed) -> Reading[str | None]:
    """Take one JSON value whole; its text, or None if it is none."""
    pieces: list[str] = []
    good = yield from copy_value(feed, pieces.append)
    return "".join(pieces) if good else None


def read_string(feed: Feed) -> Reading[str | None]:
    """Take a short JSON string, such as a key or a name; what it says, or None if it is none."""
    if (yield from feed.peek()) != '"':
        return None
    pieces: list[str] = []
    size = 0

    def keep(piece: str) -> None:
        nonlocal size
        size += len(piece)
        pieces.append(piece)

    reading = _copy_string(feed, keep)
    while True:
        try:
            next(reading)
        except StopIteration as result:
            good = result.value and size <= MAX_KEY
            return loads("".join(pieces)) if good else None
        if size > MAX_KEY:
            return None
        yield


def loads(text: str) -> Any:
    """The value of JSON text; None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
