"""The engine as asyncio sees it: one hop per step to the event loop, then plain awaits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from mrs.runtime.engine import Engine, Published, Ticket
from mrs.runtime.generation import (
    EngineStats,
    GenerationDelta,
    GenerationRequest,
)


class AsyncEngine:
    """A `mrs.runtime.generation.GenerationEngine` over an `Engine`.

    `publish` is what the engine must be given as its callback.
    """

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def attach(self, engine: Engine) -> None:
        """Name the engine whose callback `publish` is."""
        self._engine = engine

    @property
    def engine(self) -> Engine:
        """The engine itself."""
        assert self._engine is not None, "attach was not called"
        return self._engine

    @property
    def ready(self) -> bool:
        """A warm-up token was produced and new requests are taken."""
        return self.engine.ready

    @property
    def alive(self) -> bool:
        """The engine thread runs."""
        return self.engine.alive

    def stats(self) -> EngineStats:
        """Numbers of this moment."""
        return self.engine.stats()

    def drain(self) -> None:
        """Take no new requests; those admitted go on."""
        self.engine.drain()

    def submit(self, request: GenerationRequest) -> AsyncStream:
        """Admit a request; to be called on the event loop's thread.

        Raises:
            RequestError: see `Engine.submit`.
        """
        self._loop = asyncio.get_running_loop()
        stream = AsyncStream(self.engine, request.n)
        stream.ticket = self.engine.submit(request, stream)
        return stream

    def publish(self, published: Published) -> None:
        """Carry a step's deltas to the event loop in one hop; called on the engine thread."""
        loop = self._loop
        # Without a loop, or with one that is closing, nobody waits for the deltas any more.
        if loop is None or loop.is_closed():
            return
        try:
            loop.call_soon_threadsafe(_deliver, published)
        except RuntimeError:
            if not loop.is_closed():
                raise


class AsyncStream:
    """The deltas of one request; a `mrs.runtime.generation.GenerationStream`."""

    def __init__(self, engine: Engine, choices: int) -> None:
        self.ticket: Ticket | None = None
        self._engine = engine
        self._unfinished = choices
        self._arrived: list[GenerationDelta] = []
        self._waiter: asyncio.Future[None] | None = None

    def cancel(self) -> None:
        """Give the request up. Idempotent, thread-safe."""
        if self.ticket is not None:
            self._engine.cancel(self.ticket)

    def push(self, delta: GenerationDelta) -> None:
        """Take a delta; on the event loop's thread."""
        self._arrived.append(delta)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def __aiter__(self) -> AsyncIterator[tuple[GenerationDelta, ...]]:
        """Iterate over all that has arrived since the last time, until every choice has ended."""
        while self._unfinished:
            if not self._arrived:
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter
            arrived, self._arrived = tuple(self._arrived), []
            self._unfinished -= sum(delta.finish_reason is not None for delta in arrived)
            yield arrived


def _deliver(published: Published) -> None:
    for ticket, delta in published:
        if isinstance(ticket.listener, AsyncStream):
            ticket.listener.push(delta)
