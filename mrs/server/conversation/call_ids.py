"""Ids of tool calls."""

from __future__ import annotations

import secrets
import string

_ALPHABET = string.ascii_letters + string.digits


def new_call_id() -> str:
    """``call_`` and 24 random letters and digits, as OpenAI has them."""
    return "call_" + _random(24)


def new_short_call_id() -> str:
    """Nine random letters and digits: templates of Mistral's models refuse any other."""
    return _random(9)


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))
