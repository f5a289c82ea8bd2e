"""Refuses requests that came through a name that is not this server's.

A web page can point its own name at 127.0.0.1 and then talk to a local server as to its own
(DNS rebinding; CVE-2024-28224 is one case). The ``Host`` header still tells the page's name.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from mrs.server.errors import HostNotAllowedError, reply_to
from mrs.server.request_context import context_of


class HostCheckMiddleware:
    """Lets a request pass only if its ``Host``, without the port, is in ``allowed``."""

    def __init__(self, app: ASGIApp, allowed: frozenset[str]) -> None:
        self._app = app
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or self._allows(scope):
            await self._app(scope, receive, send)
            return
        error = HostNotAllowedError(
            "The Host header of this request names a host that this server does not answer for.",
            hint="Use http://127.0.0.1, or start the server with --allowed-host.",
        )
        context = context_of(scope)
        reply = reply_to(error, context.request_id, context.dialect)
        await reply.response()(scope, receive, send)

    def _allows(self, scope: Scope) -> bool:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        return len(hosts) == 1 and host_name(hosts[0].decode("latin-1")) in self._allowed


def host_name(header: str) -> str:
    """Return the host of a ``Host`` header in lower case, without its port.

    >>> host_name("[::1]:1234"), host_name("LocalHost")
    ('[::1]', 'localhost')
    """
    host, colon, port = header.strip().lower().rpartition(":")
    if colon and (port.isdecimal() or not port) and (":" not in host or host.endswith("]")):
        return host
    return header.strip().lower()
