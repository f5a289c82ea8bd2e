"""Reads a JSON request body: whole, and never beyond the limit."""

from __future__ import annotations

import asyncio
import logging

from starlette.requests import Request

from mrs.errors import RequestError
from mrs.server.errors import BodyTooLargeError, ContentTypeError
from mrs.server.request_context import context_of

logger = logging.getLogger(__name__)

_LONGEST_LOGGED_BODY = 64 * 1024


class BodyTimeoutError(RequestError):
    """The request body takes too long to arrive."""

    code = "request_timeout"
    status = 408
    headers = {"connection": "close"}  # noqa: RUF012


async def read_json_body(request: Request, max_bytes: int) -> bytes:
    """Return the body of a request that says it is JSON.

    The content type is required because a browser sends any other one across origins without
    asking the server first.

    Raises:
        ContentTypeError: the content type is not ``application/json``.
        BodyTimeoutError: the body takes too long to arrive.
        BodyTooLargeError: the body has more than ``max_bytes`` bytes, announced or received.
    """
    _check_content_type(request.headers.get("content-type", ""))
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and int(announced[:20]) > max_bytes:
        raise _too_large(max_bytes)
    context = context_of(request.scope)
    try:
        async with asyncio.timeout(context.read_timeout):
            body = await _read(request, max_bytes)
    except TimeoutError as error:
        raise BodyTimeoutError(
            f"The request body did not arrive within {context.read_timeout} seconds."
        ) from error
    if context.log_payload:
        logger.info("payload id=%s %s", context.request_id, shown_payload(body))
    return body


async def _read(request: Request, max_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
    return bytes(body)


def shown_payload(body: bytes) -> str:
    """A body for the log: on one line, in printable ASCII, and not longer than is of use."""
    shown = body[:_LONGEST_LOGGED_BODY].decode("utf-8", "replace")
    more = "..." if len(body) > _LONGEST_LOGGED_BODY else ""
    return shown.encode("unicode_escape").decode("ascii") + more


def _check_content_type(header: str) -> None:
    media_type = header.partition(";")[0].strip().lower()
    if media_type == "application/json" or media_type.endswith("+json"):
        return
    raise ContentTypeError(
        f"The content type of the request is {header[:80]!r}, not 'application/json'."
        if header
        else "The request has no content type.",
        hint="Send the header 'Content-Type: application/json'.",
    )


def _too_large(max_bytes: int) -> BodyTooLargeError:
    return BodyTooLargeError(f"The request body is larger than {max_bytes} bytes.")
