"""From exceptions to error replies: the only place that knows both.

The shape and the types are OpenAI's (https://platform.openai.com/docs/guides/error-codes), but for
requests of another dialect. What went wrong inside the server goes to the log, together with the
request id; a client gets the id alone.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import orjson
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from mrs.errors import (
    ChatTemplateError,
    MrsError,
    RequestError,
    ShuttingDownError,
)
from mrs.server.anthropic.error_body import anthropic_error, anthropic_status
from mrs.server.dialect import Dialect
from mrs.server.known_urls import allowed_methods, meant_path
from mrs.server.request_context import STATUS_CLIENT_GONE, context_of

logger = logging.getLogger(__name__)


class MalformedBodyError(RequestError):
    """The request body is not a JSON object."""

    code = "invalid_json"


class ContentTypeError(RequestError):
    """The request body does not claim to be JSON."""

    code = "invalid_content_type"


class MissingFieldError(RequestError):
    """A field that must be in the request is not."""

    code = "missing_required_parameter"


class FieldTypeError(RequestError):
    """A field of the request has a value of the wrong JSON type."""

    code = "invalid_type"


class UnsupportedFieldError(RequestError):
    """A field of the request asks for something that this server cannot do."""

    code = "unsupported_parameter"


class BodyTooLargeError(RequestError):
    """The request body is above the server's limit."""

    code = "request_too_large"
    status = 413


class HostNotAllowedError(RequestError):
    """The ``Host`` header names a host that this server does not answer for."""

    code = "host_not_allowed"
    status = 403


class GenerationFailedError(MrsError):
    """The engine gave a request up. What the client may know of it is ``__cause__``, if known."""

    code = "generation_failed"


@dataclass(frozen=True)
class ErrorReply:
    """An error as a client sees it.

    Attributes:
        status: HTTP status.
        kind: OpenAI's ``type``.
        param: the request field at fault, if one is.
        code: stable, for programs.
        headers: to send besides those of every reply.
        dialect: whose shape it has.
        request_id: of the request.
    """

    status: int
    message: str
    kind: str
    param: str | None = None
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    dialect: Dialect = Dialect.OPENAI
    request_id: str = ""

    def body(self) -> bytes:
        """Return the JSON body."""
        if self.dialect is Dialect.ANTHROPIC:
            return orjson.dumps(anthropic_error(self.status, self.message, self.request_id))
        return orjson.dumps(
            {
                "error": {
                    "message": self.message,
                    "type": self.kind,
                    "param": self.param,
                    "code": self.code,
                }
            }
        )

    def response(self) -> Response:
        """Return the whole reply."""
        anthropic = self.dialect is Dialect.ANTHROPIC
        status = anthropic_status(self.status) if anthropic else self.status
        return Response(self.body(), status, dict(self.headers), media_type="application/json")


def reply_to(error: Exception, request_id: str, dialect: Dialect = Dialect.OPENAI) -> ErrorReply:
    """Choose the reply to an exception; log it if the client is not to see what it says."""
    return replace(_reply(error, request_id), dialect=dialect, request_id=request_id)


def _reply(error: Exception, request_id: str) -> ErrorReply:
    if isinstance(error, GenerationFailedError) and isinstance(error.__cause__, RequestError):
        error = error.__cause__
    if isinstance(error, RequestError):
        return _client_error(error, error.status)
    if isinstance(error, ChatTemplateError):
        return _client_error(error, 400, param="messages")
    if isinstance(error, HTTPException):
        return _http_error(error)
    logger.error("Request %s failed.", request_id, exc_info=error)
    return ErrorReply(
        500,
        "The server had an error while it processed this request. "
        f"Its log tells more under the request id {request_id}.",
        "server_error",
        code="internal_error",
    )


def add_error_handlers(app: FastAPI) -> None:
    """Make every exception that reaches ``app`` a reply of the one shape."""
    app.add_exception_handler(MrsError, _handle)
    app.add_exception_handler(HTTPException, _handle)
    app.add_exception_handler(ClientDisconnect, _handle_disconnect)


async def _handle(request: Request, error: Exception) -> Response:
    context = context_of(request.scope)
    reply = reply_to(error, context.request_id, context.dialect)
    status = error.status_code if isinstance(error, HTTPException) else None
    routes, scope = request.app.routes, request.scope
    if status == 404 and (meant := meant_path(routes, scope)) is not None:
        reply = replace(reply, message=f"There is nothing at this URL; {meant} is served.")
    response = reply.response()
    if status == 405:
        # Starlette tells those of the first route that it finds.
        response.headers["allow"] = allowed_methods(routes, scope)
    return response


async def _handle_disconnect(request: Request, error: Exception) -> Response:
    context_of(request.scope).disconnected = True
    return Response(status_code=STATUS_CLIENT_GONE)


def _client_error(error: MrsError, status: int, param: str | None = None) -> ErrorReply:
    message = f"{error.message} {error.hint}" if error.hint else error.message
    return ErrorReply(
        status, message, _kind(status), error.param or param, error.code, _headers(error)
    )


def _headers(error: MrsError) -> dict[str, str]:
    retry_after = getattr(error, "retry_after", None)
    if retry_after is not None:
        return {"retry-after": str(retry_after)}
    if isinstance(error, ShuttingDownError):
        return {"connection": "close"}
    return dict(getattr(error, "headers", {}))


def _http_error(error: HTTPException) -> ErrorReply:
    message, code = {
        404: ("There is nothing at this URL; /docs lists what there is.", "unknown_url"),
        405: ("This URL does not take this method; /docs lists what it takes.", "invalid_method"),
    }.get(error.status_code, (str(error.detail), None))
    headers = dict(error.headers or {})
    return ErrorReply(error.status_code, message, _kind(error.status_code), None, code, headers)


def _kind(status: int) -> str:
    if status >= 500:
        return "server_error"
    special = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
    return special.get(status, "invalid_request_error")
