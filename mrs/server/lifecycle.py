"""Whether the server takes requests, and how many of them run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

_CLOSING_TIMEOUT = 2.0


class Drainable(Protocol):
    """What takes requests: an engine, or all of a catalog's."""

    @property
    def ready(self) -> bool:
        """A request sent now would be taken."""

    @property
    def alive(self) -> bool:
        """It has not failed for good."""

    def drain(self) -> None:
        """Take no new requests; those admitted go on."""


class Lifecycle:
    """From ready over draining to stopped. All methods belong to the event loop's thread.

    Args:
        engine: what takes the requests.
    """

    def __init__(self, engine: Drainable) -> None:
        self._engine = engine
        self._draining = False
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._shutdown: asyncio.Future[None] | None = None
        self._closing: list[Callable[[], None]] = []

    @property
    def draining(self) -> bool:
        """Whether new requests are refused for good."""
        return self._draining

    @property
    def alive(self) -> bool:
        """Whether what takes the requests has not failed for good."""
        return self._engine.alive

    @property
    def ready(self) -> bool:
        """Whether a request sent now would be taken."""
        return self._engine.ready and self._engine.alive and not self._draining

    @property
    def status(self) -> str:
        """The state in one word, for health pages."""
        if self._draining:
            return "draining"
        if not self._engine.alive:
            return "failed"
        if self._engine.ready:
            return "ok"
        # An engine that does not know of stalls has none.
        return "stalled" if getattr(self._engine, "stalled", False) else "loading"

    def drain(self) -> None:
        """Take no new requests; those admitted go on."""
        self._draining = True
        self._engine.drain()

    def shut_down(self) -> None:
        """End the requests that still run, each with an error that says so."""
        self._draining = True
        future = self._shutdown_future()
        if not future.done():
            future.set_result(None)

    async def wait_idle(self) -> None:
        """Wait until no request runs."""
        await self._idle.wait()

    def on_close(self, close: Callable[[], None]) -> None:
        """Have something closed when nothing runs any more."""
        self._closing.append(close)

    async def close(self) -> None:
        """Close what was to be closed, when what was ended has ended; does nothing the next time.

        What does not end in time finds it closed.
        """
        with suppress(TimeoutError):
            await asyncio.wait_for(self.wait_idle(), _CLOSING_TIMEOUT)
        while self._closing:
            self._closing.pop()()

    @contextmanager
    def request(self) -> Iterator[asyncio.Future[None]]:
        """Count a request as running; the future is done when it must end at once."""
        self._running += 1
        self._idle.clear()
        try:
            yield self._shutdown_future()
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    def _shutdown_future(self) -> asyncio.Future[None]:
        # Not in __init__: a future belongs to a loop, and the app is made before there is one.
        if self._shutdown is None:
            self._shutdown = asyncio.get_running_loop().create_future()
        return self._shutdown
