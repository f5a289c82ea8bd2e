"""How much memory the KV cache may take, and how many tokens that is."""

from __future__ import annotations

from collections.abc import Callable

from mrs.errors import UsageError
from mrs.memory import available_memory

MOST_BYTES = 1 << 50
_SHARE = 2
_KEPT_SHARE = 8
_MOST_KEPT = 1 << 30
_LEAST_TOKENS = 2048


def default_budget(row_bytes: Callable[[int], int], slots: int, max_length: int) -> int:
    """Half of what is free now, but no more than full slots need and no less than a short row.

    Args:
        row_bytes: memory that a row of so many tokens takes.
        slots: rows.
        max_length: most tokens of one.
    """
    full = slots * row_bytes(max_length)
    free = available_memory()
    if free is None:
        return full
    return max(min(full, free // _SHARE), row_bytes(min(max_length, _LEAST_TOKENS)))


def default_kept_bytes() -> int:
    """An eighth of what is free, at most 1 GiB; nothing where nobody knows what is free."""
    return min(_MOST_KEPT, (available_memory() or 0) // _KEPT_SHARE)


def check_budget(budget: int, row_bytes: Callable[[int], int], least: int) -> None:
    """Refuse a budget in which there is no room for one row of ``least`` tokens.

    Raises:
        UsageError: there is none.
    """
    needed = row_bytes(least)
    if not needed <= budget <= MOST_BYTES:
        raise UsageError(
            f"--kv-cache-bytes is {budget}; {least} tokens of this model need {needed}, and it "
            f"must be at most {MOST_BYTES}.",
            hint="Give it more memory, or lower --max-model-len.",
        )


def tokens_within(budget: int, row_bytes: Callable[[int], int], most: int) -> int:
    """The longest row, of at most ``most`` tokens, that takes no more than ``budget`` bytes."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if row_bytes(middle) <= budget:
            low = middle
        else:
            high = middle - 1
    return low
