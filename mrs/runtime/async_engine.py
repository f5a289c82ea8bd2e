"""The engine as asyncio sees it: one hop per step to the event loop, then plain awaits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import anyio
import anyio.to_thread

from mrs.runtime.engine import Engine
from mrs.runtime.generation import (
    EngineStats,
    GenerationDelta,
    GenerationRequest,
)
from mrs.runtime.grammar.stats import GrammarStats
from mrs.runtime.ticket import Published, Ticket

# One compiles, the others wait for it.
_COMPILING = anyio.CapacityLimiter(8)


class AsyncEngine:
    """A `mrs.runtime.generation.GenerationEngine` over an `Engine`.

    `publish` is what the engine must be given as its callback. Requests may come from several event
    loops, one after the other or at once; each hears of its own.
    """

    def __init__(self) -> None:
        self._engine: Engine | None = None

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

    @property
    def stalled(self) -> bool:
        """A step takes longer than any should; see `Engine.stalled`."""
        return self.engine.stalled

    @property
    def grammar_stats(self) -> GrammarStats | None:
        """What grammars cost; None if the model takes none."""
        return None if self.engine.grammars is None else self.engine.grammars.stats

    def stats(self) -> EngineStats:
        """Numbers of this moment."""
        return self.engine.stats()

    def drain(self) -> None:
        """Take no new requests; those admitted go on."""
        self.engine.drain()

    async def prepare(self, request: GenerationRequest) -> None:
        """Do what `submit` would take long for: compile the request's grammar, in a thread.

        Raises:
            InvalidGrammarError: it does not compile.
            GrammarBusyError: too many others are being compiled.
        """
        grammar, grammars = request.sampling.grammar, self.engine.grammars
        if grammar is None or grammars is None or grammars.is_compiled(grammar):
            return
        compile_it = partial(grammars.compile, grammar)
        await anyio.to_thread.run_sync(compile_it, abandon_on_cancel=True, limiter=_COMPILING)

    def submit(self, request: GenerationRequest) -> AsyncStream:
        """Admit a request; to be called on the event loop's thread.

        Raises:
            RequestError: see `Engine.submit`.
        """
        stream = AsyncStream(self.engine, request.n)
        stream.ticket = self.engine.submit(request, stream)
        return stream

    def publish(self, published: Published) -> None:
        """Carry a step's deltas to the event loop in one hop; called on the engine thread."""
        arrivals: dict[asyncio.AbstractEventLoop, Published] = {}
        for ticket, delta in published:
            if isinstance(ticket.listener, AsyncStream):
                arrivals.setdefault(ticket.listener.loop, []).append((ticket, delta))
        for loop, arrived in arrivals.items():
            try:
                loop.call_soon_threadsafe(_deliver, arrived)
            except RuntimeError:
                # A loop that is closed: nobody waits for its answers any more.
                for ticket, _ in arrived:
                    self.engine.cancel(ticket)


class AsyncStream:
    """The deltas of one request; a `mrs.runtime.generation.GenerationStream`.

    Whoever leaves the iteration before its end gives the request up.
    """

    def __init__(self, engine: Engine, choices: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.ticket: Ticket | None = None
        self._engine = engine
        self._unfinished = choices
        self._arrived: list[GenerationDelta] = []
        self._news = asyncio.Event()

    def cancel(self) -> None:
        """Give the request up. Idempotent, thread-safe."""
        if self.ticket is not None:
            self._engine.cancel(self.ticket)

    def push(self, delta: GenerationDelta) -> None:
        """Take a delta; on the event loop's thread."""
        self._arrived.append(delta)
        self._news.set()

    async def __aiter__(self) -> AsyncIterator[tuple[GenerationDelta, ...]]:
        """Iterate over all that has arrived since the last time, until every choice has ended."""
        try:
            while self._unfinished:
                await self._news.wait()
                self._news.clear()
                arrived, self._arrived = tuple(self._arrived), []
                self._unfinished -= sum(delta.finish_reason is not None for delta in arrived)
                yield arrived
        finally:
            if self._unfinished:
                self.cancel()


def _deliver(arrived: Published) -> None:
    for ticket, delta in arrived:
        assert isinstance(ticket.listener, AsyncStream)
        ticket.listener.push(delta)
