"""Server-sent events over bare ASGI: at most one send per wake-up of the engine.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from starlette.types import Send

from mrs.server.dialect import Dialect
from mrs.server.errors import ErrorReply

KEEP_ALIVE_COMMENT = b": keep-alive\n\n"
_PING = b'event: ping\ndata: {"type":"ping"}\n\n'
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    # nginx would hold the events back until its buffer is full.
    (b"x-accel-buffering", b"no"),
]


def event(data: bytes, name: str | None = None) -> bytes:
    """Return ``data``, which is one line, as an event."""
    line = b"data: " + data + b"\n\n"
    return line if name is None else b"event: " + name.encode("ascii") + b"\n" + line


def error_event(reply: ErrorReply) -> bytes:
    """Return the event that tells a client of a failure after the headers were sent."""
    return event(reply.body(), name="error" if reply.dialect is Dialect.ANTHROPIC else None)


def keep_alive_event(dialect: Dialect) -> bytes:
    """Return what keeps a stream of the dialect awake."""
    return _PING if dialect is Dialect.ANTHROPIC else KEEP_ALIVE_COMMENT


class EventStream:
    """One response of events; an asynchronous context that keeps the connection awake.

    The headers leave with the first events, so that a failure before them is an ordinary error
    response; a client that waits longer than the keep-alive interval gets headers and a comment.

    Args:
        send: the ASGI channel.
        keep_alive_interval: seconds of silence after which ``keep_alive`` is sent.
        keep_alive: a comment, or an event that means nothing.
    """

    def __init__(
        self, send: Send, keep_alive_interval: float, keep_alive: bytes = KEEP_ALIVE_COMMENT
    ) -> None:
        self._send = send
        self._interval = keep_alive_interval
        self._keep_alive_event = keep_alive
        self._started = False
        self._finished = False
        self._lock = asyncio.Lock()
        self._clock = asyncio.get_running_loop().time
        self._last_sent = self._clock()
        self._keep_alive: asyncio.Task[None] | None = None

    @property
    def started(self) -> bool:
        """Whether the headers were sent."""
        return self._started

    async def __aenter__(self) -> EventStream:
        self._keep_alive = asyncio.ensure_future(self._keep_awake())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop_keep_alive()

    async def send(self, events: bytes) -> None:
        """Send complete events."""
        await self._write(events, more=True)

    async def finish(self, events: bytes) -> None:
        """Send the last events and end the response; does nothing the second time."""
        if self._finished:
            return
        self._finished = True
        self._stop_keep_alive()
        await self._write(events, more=False)

    async def _write(self, body: bytes, *, more: bool) -> None:
        async with self._lock:
            if not self._started:
                self._started = True
                start = {"type": "http.response.start", "status": 200, "headers": [*_HEADERS]}
                await self._send(start)
            await self._send({"type": "http.response.body", "body": body, "more_body": more})
            self._last_sent = self._clock()

    def _stop_keep_alive(self) -> None:
        if self._keep_alive is not None:
            self._keep_alive.cancel()

    async def _keep_awake(self) -> None:
        # One timer per stream: a send only moves `_last_sent`, and the timer looks when it ends.
        while True:
            left = self._last_sent + self._interval - self._clock()
            if left > 0:
                await asyncio.sleep(left)
            else:
                await self._write(self._keep_alive_event, more=True)
