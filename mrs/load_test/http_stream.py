"""One HTTP request whose response is read as it comes.

The client shares the processors with the server it measures, so it does little: one connection for
each request, a C parser, and no copies of what is read.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from urllib.parse import urlsplit

import httptools

_READ_SIZE = 1 << 16


class ServerReplyError(Exception):
    """A server answered with a status other than 200, or not with HTTP."""


@dataclass(frozen=True)
class ServerAddress:
    """Where requests go.

    Attributes:
        host: name or address.
        port: TCP port.
        prefix: path before ``/v1``.
        tls: the connection is encrypted.
    """

    host: str
    port: int
    prefix: str = ""
    tls: bool = False

    @classmethod
    def from_url(cls, url: str) -> ServerAddress:
        """Parse a server's URL, with or without ``/v1`` at its end.

        Raises:
            ValueError: it is no HTTP URL.
        """
        parts = urlsplit(url if "://" in url else f"http://{url}")
        tls = parts.scheme == "https"
        try:
            port = parts.port or (443 if tls else 80)
        except ValueError:
            port = 0
        if parts.scheme not in ("http", "https") or not parts.hostname or not port:
            raise ValueError(f"{url!r} is no http:// or https:// URL")
        return cls(parts.hostname, port, parts.path.rstrip("/").removesuffix("/v1"), tls)


async def request(
    address: ServerAddress,
    method: str,
    path: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> AsyncGenerator[bytes, None]:
    """Send a request and iterate over the response's body, piece by piece.

    Raises:
        ServerReplyError: the status is not 200, or the reply is no HTTP.
        OSError: there is no connection, or it broke.
    """
    context = ssl.create_default_context() if address.tls else None
    reader, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
    try:
        writer.write(_head(address, method, path, len(body), headers or {}) + body)
        async with aclosing(_read(reader)) as pieces:
            async for piece in pieces:
                yield piece
    finally:
        writer.close()


def _head(
    address: ServerAddress, method: str, path: str, length: int, headers: Mapping[str, str]
) -> bytes:
    host = f"[{address.host}]" if ":" in address.host else address.host
    lines = [
        f"{method} {address.prefix}{path} HTTP/1.1",
        f"Host: {host}:{address.port}",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {length}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


async def _read(reader: asyncio.StreamReader) -> AsyncGenerator[bytes, None]:
    response = _Response()
    parser = httptools.HttpResponseParser(response)
    while not response.complete and (data := await reader.read(_READ_SIZE)):
        try:
            parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise ServerReplyError(f"the server does not answer with HTTP: {error}") from error
        if response.pieces and parser.get_status_code() == 200:
            pieces, response.pieces = response.pieces, []
            yield b"".join(pieces)
    if not response.started:
        raise ServerReplyError("the server closed the connection without an answer")
    if (status := parser.get_status_code()) != 200:
        said = b"".join(response.pieces).decode("utf-8", "replace")
        raise ServerReplyError(f"the server answered with status {status}: {said:.300}")


class _Response:
    """What the parser calls back."""

    def __init__(self) -> None:
        self.started = False
        self.complete = False
        self.pieces: list[bytes] = []

    def on_headers_complete(self) -> None:
        self.started = True

    def on_body(self, body: bytes) -> None:
        self.pieces.append(body)

    def on_message_complete(self) -> None:
        self.complete = True
