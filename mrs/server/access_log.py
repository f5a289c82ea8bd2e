"""The outermost layer: request ids, one log line per request, and a reply whatever happens."""

from __future__ import annotations

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mrs.server.dialect import Dialect
from mrs.server.errors import STATUS_CLIENT_GONE, reply_to
from mrs.server.request_context import RequestContext, open_context

logger = logging.getLogger(__name__)

QUIET_PATHS = frozenset(
    {"/", "/health", "/health/live", "/health/ready", "/docs", "/openapi.json", "/v1/models"}
)
_LONGEST_LOGGED_PATH = 200


class AccessLogMiddleware:
    """Gives each request a context, an id in its response, and a line in the log.

    Neither headers nor bodies are logged, and a path cannot forge a line: what is not printable
    ASCII is escaped.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        context = open_context(scope)
        id_headers = _id_headers(context)

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                context.status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *id_headers]}
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception as error:
            reply = reply_to(error, context.request_id, context.dialect)
            if context.status is None:
                await reply.response()(scope, receive, send_with_id)
        finally:
            _log(scope, context)


def _id_headers(context: RequestContext) -> list[tuple[bytes, bytes]]:
    request_id = context.request_id.encode("ascii")
    headers = [(b"x-request-id", request_id)]
    if context.dialect is Dialect.ANTHROPIC:
        headers.append((b"request-id", request_id))
    return headers


def _log(scope: Scope, context: RequestContext) -> None:
    level = logging.DEBUG if scope["path"] in QUIET_PATHS else logging.INFO
    if not logger.isEnabledFor(level):
        return
    status = STATUS_CLIENT_GONE if context.disconnected else context.status or 0
    tokens = ""
    if context.prompt_tokens is not None:
        tokens = f" prompt={context.prompt_tokens} completion={context.completion_tokens or 0}"
    logger.log(
        level,
        "%s %s %d %.1f ms%s id=%s",
        scope["method"],
        _printable(scope["path"]),
        status,
        (time.perf_counter() - context.started) * 1000,
        tokens,
        context.request_id,
    )


def _printable(path: str) -> str:
    return path[:_LONGEST_LOGGED_PATH].encode("unicode_escape").decode("ascii")
