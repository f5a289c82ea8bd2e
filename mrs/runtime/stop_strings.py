"""Stop strings, found in text that arrives in pieces."""

from __future__ import annotations

from collections.abc import Sequence


class StopStringMatcher:
    """Passes text on up to the first stop string, and nothing of it or after it.

    The first one is the one that is complete first; of several that are complete with the same
    character, the longest. Text is held back only while it may be the beginning of a stop string.
    What comes out does not depend on how the text was cut.

    The automaton of Aho and Corasick, "Efficient String Matching" (1975): each character costs a
    constant, on average, however many stop strings there are.

    Args:
        stop: the stop strings; empty ones are ignored.

    Attributes:
        found: the stop string that was found, or None.
    """

    __slots__ = ("_depth", "_fallback", "_held", "_matched", "_next", "_state", "found")

    def __init__(self, stop: Sequence[str]) -> None:
        # A state is a prefix of a stop string: 0 is the empty one.
        self._next: list[dict[str, int]] = [{}]
        self._depth = [0]
        self._matched = [0]
        for string in stop:
            self._add(string)
        self._fallback = self._link()
        self._state = 0
        self._held = ""
        self.found: str | None = None

    def push(self, text: str) -> tuple[str, bool]:
        """Take more text.

        Returns:
            The text that can be passed on now, and whether a stop string has been found; after
            that, nothing more comes out.
        """
        if self.found is not None:
            return "", True
        if not self._state and self._next[0].keys().isdisjoint(text):
            return text, False
        buffer = self._held + text
        for index, character in enumerate(text, len(self._held) + 1):
            self._state = state = self._step(self._state, character)
            if matched := self._matched[state]:
                self.found = buffer[index - matched : index]
                self._held = ""
                return buffer[: index - matched], True
        safe = len(buffer) - self._depth[self._state]
        self._held = buffer[safe:]
        return buffer[:safe], False

    def flush(self) -> str:
        """The text that was held back and turned out to be no stop string."""
        held, self._held = self._held, ""
        self._state = 0
        return held

    def _step(self, state: int, character: str) -> int:
        following = self._next
        while state and character not in following[state]:
            state = self._fallback[state]
        return following[state].get(character, 0)

    def _add(self, string: str) -> None:
        state = 0
        for character in string:
            if character not in self._next[state]:
                self._next[state][character] = len(self._next)
                self._next.append({})
                self._depth.append(self._depth[state] + 1)
                self._matched.append(0)
            state = self._next[state][character]
        if string:
            self._matched[state] = len(string)

    def _link(self) -> list[int]:
        """For each state, the longest proper suffix that is a state too, shortest states first."""
        self._fallback = fallback = [0] * len(self._next)
        layer = list(self._next[0].values())
        while layer:
            deeper = []
            for state in layer:
                for character, child in self._next[state].items():
                    fallback[child] = self._step(fallback[state], character)
                    deeper.append(child)
                # A stop string may end inside of another one's beginning.
                self._matched[state] = self._matched[state] or self._matched[fallback[state]]
            layer = deeper
        return fallback
