"""JSON that may hold what clients put into their schemas: numbers of any size."""

from __future__ import annotations

from typing import Any

import orjson
import pydantic_core


def to_json(value: Any) -> bytes:
    """JSON on one line; what is no number becomes null."""
    try:
        return orjson.dumps(value)
    except TypeError:
        # orjson knows integers of 64 bits alone.
        return pydantic_core.to_json(value, inf_nan_mode="null")


def from_json(text: bytes) -> Any:
    """The opposite; integers keep all their digits."""
    return pydantic_core.from_json(text)
