"""The events of a response for somebody who comes later, or comes back."""

from __future__ import annotations

import asyncio

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mrs.server.interruption import Interruption, run_interruptible
from mrs.server.request_context import context_of
from mrs.server.responses.event_log import EventLog, unpack_events
from mrs.server.responses.event_writer import obfuscated
from mrs.server.streaming import KEEP_ALIVE_COMMENT, EventStream


class EventReplay(Response):
    """Sends a log from some event on, until it is closed. Who leaves ends nothing but this.

    Args:
        log: the events.
        keep_alive_interval: see `EventStream`.
        after: number of the last event that is not wanted.
        obfuscate: deltas that have no random characters get some.
    """

    def __init__(
        self,
        log: EventLog,
        keep_alive_interval: float,
        after: int = -1,
        *,
        obfuscate: bool = False,
    ) -> None:
        super().__init__()
        self._obfuscate = obfuscate
        self._log = log
        self._interval = keep_alive_interval
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        # When the server stops, what is followed ends, and is told of here.
        never = asyncio.get_running_loop().create_future()
        interruption = await run_interruptible(self._send(send), receive, never)
        context_of(scope).disconnected = interruption is Interruption.DISCONNECT

    async def _send(self, send: Send) -> None:
        async with EventStream(send, self._interval) as events:
            # The next event may be long in coming, and the headers would wait for it.
            await events.send(KEEP_ALIVE_COMMENT)
            async for arrived in self._log.follow(self._after):
                frames = map(obfuscated, arrived) if self._obfuscate else arrived
                await events.send(b"".join(frames))
            await events.finish(b"")


def stored_log(packed: bytes) -> EventLog:
    """The log of a response that has ended."""
    log = EventLog()
    log.append(unpack_events(packed))
    log.close()
    return log
