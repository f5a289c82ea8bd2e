"""The outermost layer: request ids, observers, and a reply whatever happens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mrs.server.dialect import Dialect
from mrs.server.errors import reply_to
from mrs.server.request_context import RequestContext, open_context
from mrs.server.settings import ServerSettings


class RequestObserver(Protocol):
    """What is told of each request. It must not raise."""

    def began(self, scope: Scope, context: RequestContext) -> None:
        """A request's head has arrived."""

    def ended(self, scope: Scope, context: RequestContext) -> None:
        """Its response is over, or its client is gone."""


class RequestMiddleware:
    """Gives each request a context, an id in its response, and tells observers of it.

    Args:
        app: the rest.
        settings: of the server.
        observers: whom to tell.
    """

    def __init__(
        self, app: ASGIApp, settings: ServerSettings, observers: Sequence[RequestObserver]
    ) -> None:
        self._app = app
        self._settings = settings
        self._observers = observers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        context = open_context(scope)
        context.read_timeout = self._settings.read_timeout
        context.log_payload = self._settings.log_payloads
        id_headers = _id_headers(context)
        for observer in self._observers:
            observer.began(scope, context)

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
            for observer in self._observers:
                observer.ended(scope, context)


def _id_headers(context: RequestContext) -> list[tuple[bytes, bytes]]:
    request_id = context.request_id.encode("ascii")
    headers = [(b"x-request-id", request_id)]
    if context.dialect is Dialect.ANTHROPIC:
        headers.append((b"request-id", request_id))
    return headers
