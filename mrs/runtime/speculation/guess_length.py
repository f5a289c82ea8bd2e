"""How many guesses are worth their while for one sequence."""

from __future__ import annotations

_FIRST = 3
_LONGEST_PAUSE = 32


class GuessLength:
    """Learns from which guesses were right.

    More after guesses that were all right, as many as were right (and one more) otherwise. After
    steps in which none was, a pause, twice as long each time.

    Args:
        most: never more than so many.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._length = min(_FIRST, most)
        self._pause = 0
        self._next_pause = 1

    def take(self) -> int:
        """So many guesses are welcome in this step."""
        if self._pause:
            self._pause -= 1
            return 0
        return self._length

    def learn(self, guessed: int, right: int) -> None:
        """So many of the guesses of a step were right."""
        if right:
            self._next_pause = 1
        else:
            self._pause = self._next_pause
            self._next_pause = min(2 * self._next_pause, _LONGEST_PAUSE)
        self._length = min(self._most, 2 * guessed if right == guessed else right + 1)
