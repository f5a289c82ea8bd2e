"""The tokens that a sampler looks back at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mrs.runtime.sampling.penalties import LONGEST_MATCH, TokenCounts


class TokenHistory:
    """Prompt and answer of one sequence, with what penalties need of them.

    Args:
        prompt_ids: the prompt.
        window: only so many of the newest tokens count; None for all.
    """

    def __init__(self, prompt_ids: Sequence[int], window: int | None = None) -> None:
        self._window = window
        self._tokens = np.zeros(max(64, 2 * len(prompt_ids)), dtype=np.int64)
        self._tokens[: len(prompt_ids)] = prompt_ids
        self._length = self._prompt_length = len(prompt_ids)
        self.generated = TokenCounts()
        self._seen = TokenCounts(self.tokens)

    @property
    def tokens(self) -> NDArray[np.int64]:
        """The tokens that count, the newest last; a view."""
        first = 0 if self._window is None else max(0, self._length - self._window)
        return self._tokens[first : self._length]

    @property
    def seen(self) -> NDArray[np.int64]:
        """The distinct ones among `tokens`."""
        return self._seen.ids[self._seen.counts > 0]

    @property
    def answered(self) -> int:
        """Tokens of the answer so far."""
        return self._length - self._prompt_length

    def append(self, token: int) -> None:
        """Add a token of the answer."""
        if self._length == len(self._tokens):
            self._tokens = np.concatenate([self._tokens, np.zeros_like(self._tokens)])
        self._tokens[self._length] = token
        self._length += 1
        self.generated.add(token)
        self._seen.add(token)
        if self._window is not None and self._length > self._window:
            self._forget(self._length - self._window - 1)

    def _forget(self, place: int) -> None:
        token = int(self._tokens[place])
        self._seen.add(token, -1)
        if place >= self._prompt_length:
            self.generated.add(token, -1)


class BreakerTracker:
    """How many tokens have passed since the text last contained a sequence breaker.

    Args:
        breakers: byte strings, of any length, that no repetition extends over.
        pieces: bytes of each token.
    """

    def __init__(self, breakers: Sequence[bytes], pieces: Sequence[bytes]) -> None:
        self._breakers = [breaker for breaker in breakers if breaker]
        self._pieces = pieces
        self._reach = max((len(breaker) for breaker in self._breakers), default=1) - 1
        self._tail = b""
        self.passed = 0

    def begin(self, prompt_ids: Sequence[int]) -> None:
        """Take as much of the end of a prompt as can make a difference."""
        bytes_left = self._reach
        first = len(prompt_ids)
        while first and (bytes_left > 0 or len(prompt_ids) - first <= LONGEST_MATCH):
            first -= 1
            bytes_left -= len(self._piece(prompt_ids[first]))
        for token in prompt_ids[first:]:
            self.append(token)

    def append(self, token: int) -> None:
        """Take the next token of the text."""
        text = self._tail + self._piece(token)
        # A breaker counts with the token that completes it.
        starts = ((breaker, len(self._tail) - len(breaker) + 1) for breaker in self._breakers)
        broken = any(text.find(breaker, max(0, start)) >= 0 for breaker, start in starts)
        self.passed = 0 if broken else self.passed + 1
        self._tail = text[max(0, len(text) - self._reach) :] if self._reach else b""

    def _piece(self, token: int) -> bytes:
        return self._pieces[token] if 0 <= token < len(self._pieces) else b""
