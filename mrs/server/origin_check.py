"""Refuses what a web page sends that this server does not know.

A browser sends some requests across origins without asking first (a POST without a body, say), and
tells the page's origin in them. Whoever is no browser sends none.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from mrs.errors import RequestError
from mrs.server.errors import reply_to
from mrs.server.request_context import context_of

ANY_ORIGIN = "*"
_HARMLESS_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class OriginNotAllowedError(RequestError):
    """The ``Origin`` header names a web page that may not use this server."""

    code = "origin_not_allowed"
    status = 403


class OriginCheckMiddleware:
    """Lets a request pass if its ``Origin`` is the server's own, or in ``allowed``."""

    def __init__(self, app: ASGIApp, allowed: Collection[str]) -> None:
        self._app = app
        self._allowed = frozenset(allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or self._allows(scope):
            await self._app(scope, receive, send)
            return
        error = OriginNotAllowedError(
            "The web page that sent this request may not use this server.",
            hint="Start the server with --cors-origin and the page's origin.",
        )
        context = context_of(scope)
        reply = reply_to(error, context.request_id, context.dialect)
        await reply.response()(scope, receive, send)

    def _allows(self, scope: Scope) -> bool:
        if scope["method"] in _HARMLESS_METHODS or ANY_ORIGIN in self._allowed:
            return True
        headers = scope["headers"]
        origins = [value.decode("latin-1") for name, value in headers if name == b"origin"]
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        return all(origin in self._allowed or _is_of(origin, hosts) for origin in origins)


def _is_of(origin: str, hosts: list[str]) -> bool:
    try:
        return urlsplit(origin).netloc.lower() in [host.strip().lower() for host in hosts]
    except ValueError:
        return False
