"""One line of the log for each request."""

from __future__ import annotations

import logging
from typing import Any

from starlette.types import Scope

from mrs.server.json_log import FACTS
from mrs.server.request_context import RequestContext

logger = logging.getLogger(__name__)

QUIET_PATHS = frozenset(
    {
        "/",
        "/health",
        "/health/live",
        "/health/ready",
        "/metrics",
        "/docs",
        "/openapi.json",
        "/api-doc/openapi.json",
        "/v1/models",
    }
)
_LONGEST_LOGGED_PATH = 200
_REFUSED = (401, 403)


class AccessLog:
    """Writes what became of each request; what programs ask for all the time, at DEBUG alone.

    Neither headers nor bodies are logged, and a path cannot forge a line: what is not printable
    ASCII is escaped.
    """

    def began(self, scope: Scope, context: RequestContext) -> None:
        """Nothing is written before a request is over."""

    def ended(self, scope: Scope, context: RequestContext) -> None:
        """Write the line."""
        quiet = scope["path"] in QUIET_PATHS and context.final_status not in _REFUSED
        level = logging.DEBUG if quiet else logging.INFO
        if logger.isEnabledFor(level):
            facts = _facts(scope, context)
            logger.log(level, "%s", _line(facts), extra={FACTS: facts})


def _facts(scope: Scope, context: RequestContext) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "method": scope["method"],
        "path": _printable(scope["path"]),
        "status": context.final_status,
        "ms": round(context.elapsed * 1000, 1),
    }
    if context.prompt_tokens is not None:
        facts["prompt"] = context.prompt_tokens
        facts["completion"] = context.completion_tokens or 0
    if context.model:
        facts["model"] = _printable(context.model)
    if context.principal:
        facts["key"] = context.principal
    facts["id"] = context.request_id
    if context.trace_id:
        facts["trace"] = context.trace_id
    return facts


def _line(facts: dict[str, Any]) -> str:
    first = f"{facts['method']} {facts['path']} {facts['status']} {facts['ms']:.1f} ms"
    others = ("prompt", "completion", "model", "key", "id", "trace")
    return " ".join([first, *(f"{name}={facts[name]}" for name in others if name in facts)])


def _printable(text: str) -> str:
    return text[:_LONGEST_LOGGED_PATH].encode("unicode_escape").decode("ascii")
