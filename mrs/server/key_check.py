"""Lets requests pass whose key is good for where they go."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from mrs.errors import RequestError
from mrs.server.access_keys import AccessKey, AccessPolicy
from mrs.server.errors import reply_to
from mrs.server.request_context import context_of

PUBLIC_PATHS = frozenset({"/", "/health", "/docs", "/openapi.json", "/api-doc/openapi.json"})
_PUBLIC_ROOT = "/health/"
_ADMIN_PATHS = frozenset({"/v1/models/unload", "/v1/models/reload"})
_ADMIN_ROOT = "/v1/system/"


class WrongKeyError(RequestError):
    """The request has no key, or one that the server does not know."""

    code = "invalid_api_key"
    status = 401
    headers = {"www-authenticate": "Bearer"}  # noqa: RUF012


class AdminKeyError(RequestError):
    """The request asks for administration, and its key is not one for that."""

    code = "admin_key_required"
    status = 403


class KeyCheckMiddleware:
    """Finds a request's key, keeps whose it is in the request's context, or refuses it."""

    def __init__(self, app: ASGIApp, policy: AccessPolicy) -> None:
        self._app = app
        self._policy = policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        context = context_of(scope)
        try:
            context.principal = self._principal(scope)
        except RequestError as error:
            reply = reply_to(error, context.request_id, context.dialect)
            await reply.response()(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _principal(self, scope: Scope) -> str:
        path = scope["path"]
        key = self._key(scope)
        if self._policy.keys and key is None and not is_public(path, self._policy):
            raise WrongKeyError(
                "The request needs an API key of this server.",
                hint="Send it as 'Authorization: Bearer KEY' or 'x-api-key: KEY'.",
            )
        if is_admin(path):
            self._check_admin(key)
        return "" if key is None else key.principal

    def _check_admin(self, key: AccessKey | None) -> None:
        if self._policy.keys.has_admin:
            if key is None or not key.admin:
                raise AdminKeyError("This needs an admin key of this server.")
        elif not self._policy.open_admin:
            raise AdminKeyError(
                "Administration over the network is off: this server has no admin key.",
                hint="Start it with --admin-key or --admin-key-file.",
            )

    def _key(self, scope: Scope) -> AccessKey | None:
        """The first good one of the keys that the request presents."""
        if not self._policy.keys:
            return None
        found = None
        for name, value in scope["headers"]:
            presented = _presented(name, value)
            if presented is not None and found is None:
                found = self._policy.keys.find(presented)
        return found


def is_public(path: str, policy: AccessPolicy) -> bool:
    """Whether a path is for those without a key too."""
    return policy.public_health and (path in PUBLIC_PATHS or path.startswith(_PUBLIC_ROOT))


def is_admin(path: str) -> bool:
    """Whether a path is one of administration."""
    return path in _ADMIN_PATHS or path.startswith(_ADMIN_ROOT)


def _presented(name: bytes, value: bytes) -> bytes | None:
    if name == b"x-api-key":
        return bytes(value.strip())
    if name == b"authorization":
        scheme, _, key = value.strip().partition(b" ")
        return bytes(key.strip()) if scheme.lower() == b"bearer" else None
    return None
