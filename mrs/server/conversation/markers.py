"""Literal strings, looked for in text that arrives in pieces."""

from __future__ import annotations


class Markers:
    """Finds the first of a few literal strings, in linear time.

    Args:
        literals: not empty; none of them is the beginning of another.
    """

    __slots__ = ("_firsts", "_longest", "literals")

    def __init__(self, literals: tuple[str, ...]) -> None:
        self.literals = tuple(dict.fromkeys(literals))
        self._firsts = frozenset(literal[0] for literal in self.literals)
        self._longest = max(map(len, self.literals))

    def find(self, text: str, at: int = 0) -> tuple[int, str]:
        """Where the first one from ``at`` on starts, and which it is.

        The length of the text and "" if there is none.
        """
        start, found = len(text), ""
        for literal in self.literals:
            place = text.find(literal, at, start + len(literal) - 1)
            if 0 <= place < start:
                start, found = place, literal
        return start, found

    def begun(self, text: str, at: int = 0) -> int:
        """Where the text's end may be the beginning of one: the length of the text if nowhere."""
        for start in range(max(at, len(text) - self._longest + 1), len(text)):
            if text[start] in self._firsts and self._begins(text[start:]):
                return start
        return len(text)

    def _begins(self, text: str) -> bool:
        return any(literal.startswith(text) for literal in self.literals)
