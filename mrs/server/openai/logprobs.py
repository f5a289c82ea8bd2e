"""Log probabilities in OpenAI's shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from mrs.runtime.generation import TokenLogprobs

TokenBytes = Callable[[int], bytes]

# OpenAI's own floor: JSON has no infinity.
LEAST_LOGPROB = -9999.0


def token_logprobs(found: TokenLogprobs, token_bytes: TokenBytes) -> dict[str, Any]:
    """One entry of ``logprobs.content``.

    The bytes are those of the token, also where it holds a part of a character; its text has
    U+FFFD there.
    """
    top = [_entry(token, logprob, token_bytes) for token, logprob in found.top]
    return {**_entry(found.token, found.logprob, token_bytes), "top_logprobs": top}


def choice_logprobs(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """The ``logprobs`` of a choice."""
    return {"content": entries, "refusal": None}


def _entry(token: int, logprob: float, token_bytes: TokenBytes) -> dict[str, Any]:
    raw = token_bytes(token)
    return {
        "token": raw.decode("utf-8", "replace"),
        "logprob": logprob if math.isfinite(logprob) else LEAST_LOGPROB,
        "bytes": list(raw),
    }
