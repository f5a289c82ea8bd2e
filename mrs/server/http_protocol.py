"""uvicorn's HTTP protocol, with bounds on the head of a request: its bytes, and its time."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol


class BoundedHeadProtocol(HttpToolsProtocol):
    """A connection whose requests say in time and in brief what they want.

    uvicorn itself would read a head of any length and wait for it for ever.
    """

    max_head_bytes: int
    read_timeout: float

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._in_head = True
        self._head_bytes = 0
        self._fields_bytes = 0
        self._status = 400
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head."""
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read; refuse a head that is too long before it has ended."""
        if self._in_head:
            self._head_bytes += len(data)
            if self._timer is None:
                self._start_timer()
        super().data_received(data)
        if self._in_head and self._head_bytes > self.max_head_bytes:
            self._refuse(431)

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._in_head = True
        self._fields_bytes = 0

    def on_url(self, url: bytes) -> None:
        """A part of the target."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the head."""
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._in_head = False
        self._head_bytes = 0
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The body is whole; another head may come."""
        self._in_head = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what could not be parsed, or was not to be."""
        self._refuse(self._status)

    def _count(self, size: int) -> None:
        self._fields_bytes += size
        if self._fields_bytes > self.max_head_bytes:
            self._status = 431
            raise ValueError("the head is too long")  # Ends the parsing.

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self.read_timeout, self._refuse, 408)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: int) -> None:
        self._stop_timer()
        if self.transport is None or self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            head = b"content-length: 0\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[status] + head)
        self.transport.close()


def bounded_head(max_head_bytes: int, read_timeout: float) -> type[BoundedHeadProtocol]:
    """The protocol with these bounds.

    Args:
        max_head_bytes: most bytes of request line and headers.
        read_timeout: seconds for a head to arrive.
    """
    bounds = {"max_head_bytes": max_head_bytes, "read_timeout": read_timeout}
    return type("BoundedHeadProtocol", (BoundedHeadProtocol,), bounds)
