"""Log probabilities in the shape of text completions: four lists, an entry for each token."""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterable
from typing import Any

from mrs.runtime.generation import TokenLogprobs
from mrs.server.openai.logprobs import LEAST_LOGPROB, TokenBytes

_Utf8Decoder = codecs.getincrementaldecoder("utf-8")


class CompletionLogprobsWriter:
    """Writes the lists of one text, piece by piece.

    Args:
        token_bytes: bytes of a token.
        leading_spaces: so many spaces of the first token are no part of the text.
    """

    def __init__(self, token_bytes: TokenBytes, leading_spaces: int = 0) -> None:
        self._token_bytes = token_bytes
        self._leading_spaces = leading_spaces
        self._decode = _Utf8Decoder("replace").decode
        self._offset = 0

    def unpredicted(self, token: int) -> dict[str, Any]:
        """The lists for a token that nothing came before."""
        return self._lists([(token, None, None)])

    def write(self, found: Iterable[TokenLogprobs]) -> dict[str, Any]:
        """The lists for the next tokens."""
        return self._lists([(one.token, one.logprob, self._top(one)) for one in found])

    def _lists(
        self, entries: list[tuple[int, float | None, dict[str, float] | None]]
    ) -> dict[str, Any]:
        pieces = [self._take(token) for token, _, _ in entries]
        return {
            "tokens": [_text(piece) for piece in pieces],
            "token_logprobs": [logprob and _finite(logprob) for _, logprob, _ in entries],
            "top_logprobs": [top for _, _, top in entries],
            "text_offset": [self._take_offset(piece) for piece in pieces],
        }

    def _take(self, token: int) -> bytes:
        raw = self._token_bytes(token)
        spaces, self._leading_spaces = self._leading_spaces, 0
        return raw[spaces:] if spaces and raw[:spaces].isspace() else raw

    def _top(self, found: TokenLogprobs) -> dict[str, float]:
        """The likeliest, and the token itself if it is none of them."""
        return {
            _text(self._token_bytes(token)): _finite(logprob)
            for token, logprob in (*found.top, (found.token, found.logprob))
        }

    def _take_offset(self, raw: bytes) -> int:
        offset = self._offset
        self._offset += len(self._decode(raw))
        return offset


def joined(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The lists of several pieces, put together."""
    names = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
    whole: dict[str, Any] = {name: [] for name in names}
    for part in parts:
        for name in names:
            whole[name] += part[name]
    return whole


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)


def _finite(logprob: float) -> float:
    return logprob if math.isfinite(logprob) else LEAST_LOGPROB
