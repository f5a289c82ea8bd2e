"""The ``usage`` object."""

from __future__ import annotations

from typing import Any

from mrs.server.answer_times import rate
from mrs.server.generation import Tally


def usage(tally: Tally, reasoning_tokens: int = 0) -> dict[str, Any]:
    """Return the token counts in OpenAI's shape, and mistral.rs's times and rates.

    Tokens that follow the first ones count for the rate of the completion: those came with the end
    of the prompt.
    """
    times = tally.times
    later_tokens = tally.completion_tokens - times.first_tokens
    total_tokens = tally.prompt_tokens + tally.completion_tokens
    return {
        "prompt_tokens": tally.prompt_tokens,
        "completion_tokens": tally.completion_tokens,
        "total_tokens": total_tokens,
        "prompt_tokens_details": {"cached_tokens": tally.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": reasoning_tokens},
        "avg_tok_per_sec": rate(total_tokens, times.total),
        "avg_prompt_tok_per_sec": rate(tally.prompt_tokens, times.prompt),
        "avg_compl_tok_per_sec": rate(later_tokens, times.completion),
        "total_time_sec": times.total,
        "total_prompt_time_sec": times.prompt,
        "total_completion_time_sec": times.completion,
    }
