"""JSON whose bytes depend on the value alone: the form of every JSON file in an artifact."""

from __future__ import annotations

import json
from typing import Any


def canonical_json(value: Any, *, compact: bool = False) -> bytes:
    """Encode ``value`` with sorted keys and a final newline, as UTF-8.

    Args:
        value: what JSON can hold.
        compact: without spaces instead of with two-space indents: many times faster, for large
            values that nobody reads.

    Raises:
        ValueError: a number is NaN or infinite, which JSON cannot hold.
    """
    form: dict[str, Any] = {"separators": (",", ":")} if compact else {"indent": 2}
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, **form)
    return text.encode("utf-8") + b"\n"
