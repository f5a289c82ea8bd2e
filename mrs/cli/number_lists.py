"""Options whose value is a list of numbers with commas between them."""

from __future__ import annotations

import math


def numbers(option: str, text: str, *, least: int) -> list[int]:
    """Whole numbers, none below ``least``.

    Raises:
        UsageError: the text is something else.
    """
    from mrs.errors import UsageError

    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise UsageError(
            f"{option} is {text!r:.60}; it must be numbers with commas between them.",
            hint=f"For example: {option} 1,4,16",
        )
    found = [int(part) for part in parts]
    if min(found) < least:
        raise UsageError(f"{option} holds {min(found)}; the least is {least}.")
    return found


def rates(option: str, text: str) -> list[float]:
    """Numbers above 0.

    Raises:
        UsageError: the text is something else.
    """
    from mrs.errors import UsageError

    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(math.isfinite(rate) and rate > 0 for rate in found):
        raise UsageError(
            f"{option} is {text!r:.60}; it must be numbers above 0 with commas between them.",
            hint=f"For example: {option} 0.5,2,8",
        )
    return found
