"""The responses that are being generated now, those in the background among them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from mrs.errors import ShuttingDownError
from mrs.server.interruption import Interruption, run_unless
from mrs.server.lifecycle import Lifecycle
from mrs.server.responses.errors import ResponseStoreError
from mrs.server.responses.run import ResponseRun, nowhere


@dataclass
class _Background:
    """A run that no connection waits for."""

    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class ResponseRuns:
    """By id. All methods belong to the event loop's thread.

    Args:
        lifecycle: background work counts as running, and ends when the server must.
    """

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._runs: dict[str, ResponseRun] = {}
        self._background: dict[str, _Background] = {}

    def find(self, response_id: str, owner: str) -> ResponseRun | None:
        """A run, if it is the owner's."""
        run = self._runs.get(response_id)
        return run if run is not None and run.owner == owner else None

    @contextlib.contextmanager
    def attended(self, run: ResponseRun) -> Iterator[None]:
        """Make a run known for as long as a connection waits for it."""
        self._runs[run.answer.id] = run
        try:
            yield
        finally:
            self._runs.pop(run.answer.id, None)

    def start(self, run: ResponseRun, held: AsyncExitStack) -> None:
        """Generate in the background.

        Args:
            run: stored as running.
            held: what it needs while it runs; closed at its end.
        """
        background = _Background()
        self._runs[run.answer.id] = run
        self._background[run.answer.id] = background
        shutdown = held.enter_context(self._lifecycle.request())
        background.task = asyncio.ensure_future(
            self._generate(run, background.cancelled, shutdown, held)
        )

    def in_background(self, run: ResponseRun) -> bool:
        """Whether no connection waits for it."""
        return run.answer.id in self._background

    async def cancel(self, run: ResponseRun) -> None:
        """End what runs in the background; when this returns, it has ended."""
        background = self._background.get(run.answer.id)
        if background is not None and background.task is not None:
            background.cancelled.set()
            await asyncio.wait({background.task})

    async def _generate(
        self,
        run: ResponseRun,
        cancelled: asyncio.Event,
        shutdown: asyncio.Future[None],
        held: AsyncExitStack,
    ) -> None:
        async with held:
            try:
                await _generate(run, cancelled, shutdown)
            finally:
                if run.log is not None:
                    run.log.close()
                self._background.pop(run.answer.id, None)
                # What could not be stored can still be fetched from here.
                if not run.lost:
                    self._runs.pop(run.answer.id, None)


async def _generate(
    run: ResponseRun, cancelled: asyncio.Event, shutdown: asyncio.Future[None]
) -> None:
    try:
        interruption = await run_unless(run.generate(nowhere), cancelled.wait(), shutdown)
        if interruption is Interruption.DISCONNECT:
            await run.cancel(nowhere)
        elif interruption is Interruption.SHUTDOWN:
            await run.fail(stopped(), nowhere)
    except Exception as error:
        with contextlib.suppress(ResponseStoreError):
            await run.fail(error, nowhere)


def stopped() -> ShuttingDownError:
    """Why an answer ends before its time when the server stops."""
    return ShuttingDownError("The server stopped before the answer was complete.")
