"""Reads a JSON request body: whole, and never beyond the limit."""

from __future__ import annotations

from starlette.requests import Request

from mrs.server.errors import BodyTooLargeError, ContentTypeError


async def read_json_body(request: Request, max_bytes: int) -> bytes:
    """Return the body of a request that says it is JSON.

    The content type is required because a browser sends any other one across origins without
    asking the server first.

    Raises:
        ContentTypeError: the content type is not ``application/json``.
        BodyTooLargeError: the body has more than ``max_bytes`` bytes, announced or received.
    """
    _check_content_type(request.headers.get("content-type", ""))
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and int(announced[:20]) > max_bytes:
        raise _too_large(max_bytes)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
    return bytes(body)


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
