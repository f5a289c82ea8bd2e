"""Python literals that a model writes, turned into JSON while they arrive."""

from __future__ import annotations

import json
import math
import string

from mrs.server.conversation.feed import Emit, Feed, Reading
from mrs.server.conversation.json_text import loads

MAX_DEPTH = 32
_MAX_WORD = 256
_WORD = frozenset(string.ascii_letters + string.digits + "_")
_NUMBER = frozenset(string.digits + "+-.eE_")
_LITERALS = {
    "True": "true",
    "False": "false",
    "None": "null",
    "true": "true",
    "false": "false",
    "null": "null",
}
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "a": "\a",
    "v": "\v",
    "0": "\0",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "/": "/",
    "\n": "",
}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_CLOSERS = {"[": "]", "(": ")", "{": "}"}


def read_word(feed: Feed) -> Reading[str]:
    """Take an identifier."""
    return (yield from feed.run_of(_WORD, _MAX_WORD))


def copy_python_value(feed: Feed, emit: Emit, depth: int = 0) -> Reading[bool]:
    """Pass one literal on as JSON.

    Returns:
        whether it was one; if not, what was taken of it has been passed on as it is.
    """
    yield from feed.spaces()
    character = yield from feed.peek()
    if character and character in "\"'":
        return (yield from _copy_string(feed, emit))
    if character and character in _CLOSERS:
        if depth >= MAX_DEPTH:
            return False
        return (yield from _copy_collection(feed, emit, depth))
    if character and character in _NUMBER:
        return (yield from _copy_number(feed, emit))
    word = yield from read_word(feed)
    emit(_LITERALS.get(word, word))
    return word in _LITERALS


def _copy_collection(feed: Feed, emit: Emit, depth: int) -> Reading[bool]:
    """Take a list, a tuple or a dict."""
    opener = feed.take(1)
    closer = _CLOSERS[opener]
    is_dict = opener == "{"
    emit("{" if is_dict else "[")
    first = True
    while True:
        yield from feed.spaces()
        if (yield from feed.accept(closer)):
            emit("}" if is_dict else "]")
            return True
        if not first:
            if not (yield from feed.accept(",")):
                return False
            yield from feed.spaces()
            if (yield from feed.peek()) == closer:
                continue
            emit(", ")
        first = False
        if is_dict and not (yield from _copy_key(feed, emit)):
            return False
        if not (yield from copy_python_value(feed, emit, depth + 1)):
            return False


def _copy_key(feed: Feed, emit: Emit) -> Reading[bool]:
    pieces: list[str] = []
    good = yield from copy_python_value(feed, pieces.append, MAX_DEPTH)
    key = "".join(pieces)
    if not good:
        emit(key)
        return False
    emit(key if key.startswith('"') else json.dumps(key))
    yield from feed.spaces()
    if not (yield from feed.accept(":")):
        return False
    emit(": ")
    return True


def _copy_number(feed: Feed, emit: Emit) -> Reading[bool]:
    text = (yield from feed.run_of(_NUMBER)).replace("_", "")
    if loads(text) is not None:
        emit(text)
        return True
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    good = math.isfinite(number)
    emit(repr(number) if good else text)
    return good


def _copy_string(feed: Feed, emit: Emit) -> Reading[bool]:
    quote = feed.take(1)
    emit('"')
    while True:
        character = yield from feed.peek()
        if not character:
            return False
        if character == quote:
            feed.take(1)
            emit('"')
            return True
        if character == "\\":
            emit(_quoted((yield from _read_escape(feed))))
        else:
            emit(_quoted(feed.take(1)))


def _read_escape(feed: Feed) -> Reading[str]:
    """Take a backslash and what it escapes; an unknown escape stands for itself, as in Python."""
    kind = (yield from feed.next_few(2))[1:]
    if kind in _ESCAPES:
        feed.take(2)
        return _ESCAPES[kind]
    digits = (yield from feed.next_few(2 + _HEX_DIGITS.get(kind, 0)))[2:]
    try:
        character = chr(int(digits, 16))
        feed.take(2 + len(digits))
    except (ValueError, OverflowError):
        return feed.take(1)
    return character


def _quoted(text: str) -> str:
    # Half of a pair of surrogates, written as an escape, has to stay one.
    return json.dumps(text, ensure_ascii="\ud800" <= text <= "\udfff")[1:-1]
