"""The part of ``usage`` that is the same each time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TIMES = {
    "avg_tok_per_sec", "avg_prompt_tok_per_sec", "avg_compl_tok_per_sec",
    "total_time_sec", "total_prompt_time_sec", "total_completion_time_sec",
}  # fmt: skip


def counts_of(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Without times and rates, which must be there."""
    assert all(usage[name] >= 0 for name in TIMES)
    return {name: value for name, value in usage.items() if name not in TIMES}
