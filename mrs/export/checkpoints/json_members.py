"""The members of a JSON object, found one by one.

A parser makes objects of all that it reads: of a few hostile megabytes, gigabytes. This one walks
over the bytes where they lie and hands out where each member is, so that the caller parses only
what it has found to be small. Nesting is followed to a fixed depth, in linear time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap
from typing import Any

Buffer = bytes | mmap

MAX_KEY_BYTES = (1 << 16) - 1

_SPACE = rb"[ \t\r\n]*+"
_STRING = rb'"(?:[^"\\\x00-\x1f]++|\\.)*+"'
_OBJECT = rb"\{(?:[^{}\"]++|" + _STRING + rb")*+\}"
for _ in range(3):
    _OBJECT = rb"\{(?:[^{}\"]++|" + _STRING + rb"|" + _OBJECT + rb")*+\}"
_SCALAR = rb"[^{}\[\]\",\x00-\x20]++"

_OPEN = re.compile(_SPACE + rb"\{" + _SPACE)
_CLOSE = re.compile(rb"\}" + _SPACE)
_MEMBER = re.compile(
    rb"(" + _STRING + rb")" + _SPACE + rb":" + _SPACE
    # A value, and what follows it.
    + rb"(" + _OBJECT + rb"|" + _STRING + rb"|" + _SCALAR + rb")" + _SPACE
    + rb"(,(?=" + _SPACE + rb"\")|(?=\}))" + _SPACE
)  # fmt: skip


class MalformedJsonError(ValueError):
    """The bytes are no JSON object of the kind that is read here.

    Attributes:
        position: the byte at fault.
    """

    def __init__(self, problem: str, position: int) -> None:
        super().__init__(f"{problem} at byte {position}")
        self.position = position


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an object: its key, and where its value's text is.

    Attributes:
        key: the key.
        start: the first byte of the value.
        stop: the first byte after it.
    """

    key: str
    start: int
    stop: int


def members(data: Buffer, start: int, stop: int) -> Iterator[Member]:
    """Yield the members of the object that fills ``data[start:stop]`` but for white space.

    Values are objects (at most four deep), strings or scalars; arrays occur only inside
    objects. Whether a value is well-formed is known when it is parsed.

    Raises:
        MalformedJsonError: the bytes are not such an object.
    """
    opened = _OPEN.match(data, start, stop)
    if opened is None:
        raise MalformedJsonError("no JSON object begins", start)
    position = opened.end()
    while (match := _MEMBER.match(data, position, stop)) is not None:
        yield Member(_key(data, *match.span(1)), match.start(2), match.end(2))
        position = match.end()
    closed = _CLOSE.match(data, position, stop)
    if closed is None or closed.end() != stop:
        raise MalformedJsonError("malformed JSON", position if closed is None else closed.end())


def parse_value(data: Buffer, member: Member, limit: int) -> Any:
    """Parse the value of a member.

    Raises:
        MalformedJsonError: it is not JSON, has more than ``limit`` bytes, or has a key twice.
    """
    if member.stop - member.start > limit:
        raise MalformedJsonError(
            f"a value of {member.stop - member.start} bytes (more than {limit})", member.start
        )
    return _parsed(data[member.start : member.stop], member.start)


def _key(data: Buffer, start: int, stop: int) -> str:
    if stop - start > MAX_KEY_BYTES:
        raise MalformedJsonError(f"a key of {stop - start} bytes", start)
    return str(_parsed(data[start:stop], start))


def _parsed(raw: bytes, position: int) -> Any:
    try:
        value = _DECODER.decode(raw.decode("utf-8"))
        if b"\\u" in raw:  # an escape may be half a character, which nothing could write again
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        detail = "bytes that are not Unicode" if isinstance(error, UnicodeError) else "no JSON"
        raise MalformedJsonError(detail, position) from None
    return value


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("a key occurs twice")
    return result


_DECODER = json.JSONDecoder(object_pairs_hook=_without_repetition)
