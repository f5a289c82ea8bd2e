"""The ``usage`` object."""

from __future__ import annotations

from typing import Any

from mrs.server.generation import Tally


def usage(tally: Tally, reasoning_tokens: int = 0) -> dict[str, Any]:
    """Return the token counts in OpenAI's shape."""
    return {
        "prompt_tokens": tally.prompt_tokens,
        "completion_tokens": tally.completion_tokens,
        "total_tokens": tally.prompt_tokens + tally.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": tally.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": reasoning_tokens},
    }
