"""JSON whose bytes depend on the value alone: the form of every JSON file in an artifact."""

from __future__ import annotations

import json
from typing import Any


def canonical_json(value: Any) -> bytes:
    """Encode ``value`` with sorted keys, two-space indents and a final newline, as UTF-8.

    Raises:
        ValueError: a number is NaN or infinite, which JSON cannot hold.
    """
    text = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8") + b"\n"
