"""The error replies that endpoints have in common, as the OpenAPI document tells them."""

from __future__ import annotations

from typing import Any

from mrs.server.openai.schemas import ErrorBody

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody, "description": text}
    for status, text in (
        (400, "The request cannot be honoured."),
        (404, "The model is not served."),
        (413, "The body is too large."),
        (429, "The queue is full; see `Retry-After`."),
        (500, "The server failed; its log has the request id."),
        (503, "The server is shutting down."),
    )
}
"""Of endpoints that have a model compute something."""
