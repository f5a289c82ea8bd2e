"""How long an answer takes."""

from __future__ import annotations

import time
from collections.abc import Callable


class AnswerTimes:
    """Seconds of one answer, from the moment when the engine is asked.

    Args:
        clock: seconds, for tests.

    Attributes:
        first_tokens: tokens that came first, at the end of the prompt.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._began = self._first = self._last = clock()
        self.first_tokens = 0

    def arrived(self, tokens: int) -> None:
        """So many tokens have come."""
        self._last = self._clock()
        if not self.first_tokens:
            self.first_tokens, self._first = tokens, self._last

    @property
    def total(self) -> float:
        """Until the last token so far."""
        return self._last - self._began

    @property
    def prompt(self) -> float:
        """Until the first token: waiting for a turn, and reading the prompt."""
        return self._first - self._began

    @property
    def completion(self) -> float:
        """From the first token to the last so far."""
        return self._last - self._first


def rate(tokens: int, seconds: float) -> float:
    """Tokens per second; 0 where there was no time to speak of."""
    return tokens / seconds if tokens > 0 and seconds > 0 else 0.0
