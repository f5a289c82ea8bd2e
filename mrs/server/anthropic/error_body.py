"""Errors in Anthropic's shape (https://docs.claude.com/en/api/errors)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KINDS: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_OVERLOADED = 529


def anthropic_error(status: int, message: str, request_id: str) -> dict[str, Any]:
    """The body of an error reply, and the data of an ``error`` event."""
    kind = _KINDS.get(status, "api_error" if status >= 500 else "invalid_request_error")
    error = {"type": kind, "message": message}
    return {"type": "error", "error": error, "request_id": request_id}


def anthropic_status(status: int) -> int:
    """The status for what is ``status`` elsewhere: a server that takes no requests has its own."""
    return _OVERLOADED if status == 503 else status
