"""The text of an answer, read from left to right while it arrives.

A parser is a generator that reads through a `Feed`: where it needs text that has not arrived, it
yields, and goes on when there is more. So parsers are written as if the whole text were there, and
what they find cannot depend on how the text was cut. Every character is taken once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Set
from typing import TypeVar

from mrs.server.conversation.markers import Markers

Result = TypeVar("Result")
Reading = Generator[None, None, Result]
"""A parser that yields whenever it needs more text, and returns what it found."""

Emit = Callable[[str], None]
SPACES = frozenset(" \t\n\r")


class Feed:
    """Text that has arrived and was not taken yet."""

    __slots__ = ("_at", "_records", "_text", "ended")

    def __init__(self) -> None:
        self._text = ""
        self._at = 0
        self._records: list[list[str]] = []
        self.ended = False

    def push(self, text: str) -> None:
        """Let more text arrive."""
        self._text = self._text[self._at :] + text
        self._at = 0

    def end(self) -> None:
        """Nothing more will arrive."""
        self.ended = True

    def ahead(self, count: int) -> str:
        """Up to ``count`` characters that have arrived and were not taken."""
        return self._text[self._at : self._at + count]

    def match(self, pattern: re.Pattern[str]) -> int:
        """How many characters that have arrived match the pattern, a single class of them."""
        found = pattern.match(self._text, self._at)
        return found.end() - self._at if found else 0

    def take(self, count: int) -> str:
        """Take characters that have arrived."""
        taken = self._text[self._at : self._at + count]
        self._at += len(taken)
        for record in self._records:
            record.append(taken)
        return taken

    def take_all(self) -> str:
        """Take all that has arrived."""
        return self.take(len(self._text) - self._at)

    def give_back(self, count: int) -> None:
        """Return the characters that were taken last; not beyond one call of `take`."""
        self._at -= count
        for record in self._records:
            if record:
                record[-1] = record[-1][:-count]

    def start_record(self) -> list[str]:
        """Begin to keep a copy of all that is taken, in the list that is returned."""
        record: list[str] = []
        self._records.append(record)
        return record

    def stop_record(self, record: list[str]) -> str:
        """End a record; all that was taken since its start."""
        self._records = [other for other in self._records if other is not record]
        return "".join(record)

    def peek(self) -> Reading[str]:
        """The next character, which is not taken; "" at the end."""
        while self._at >= len(self._text):
            if self.ended:
                return ""
            yield
        return self._text[self._at]

    def next_few(self, count: int) -> Reading[str]:
        """The next characters, which are not taken; fewer at the end."""
        while len(self._text) - self._at < count and not self.ended:
            yield
        return self.ahead(count)

    def accept(self, literal: str) -> Reading[bool]:
        """Take ``literal`` if it comes next."""
        while True:
            if self._text.startswith(literal, self._at):
                self.take(len(literal))
                return True
            if self.ended or not literal.startswith(self.ahead(len(literal))):
                return False
            yield

    def spaces(self) -> Reading[str]:
        """Take white space."""
        return (yield from self.run_of(SPACES))

    def run_of(self, characters: Set[str], most: int | None = None) -> Reading[str]:
        """Take as many of these characters as come next, at most ``most``."""
        taken: list[str] = []
        while most is None or len(taken) < most:
            if (yield from self.peek()) not in characters:
                break
            taken.append(self.take(1))
        return "".join(taken)

    def until(self, markers: Markers, emit: Emit) -> Reading[str]:
        """Pass text on up to a marker, which is taken and returned; "" at the end.

        Text is held back only while it may be the beginning of a marker.
        """
        while True:
            start, found = markers.find(self._text, self._at)
            if not found and not self.ended:
                start = markers.begun(self._text, self._at)
            if start > self._at:
                emit(self.take(start - self._at))
            if found:
                self.take(len(found))
                return found
            if self.ended:
                return ""
            yield
