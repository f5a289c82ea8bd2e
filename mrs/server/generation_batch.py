"""Several requests to the engine as one stream."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from itertools import accumulate

from mrs.errors import QueueFullError
from mrs.runtime.generation import (
    GenerationDelta,
    GenerationEngine,
    GenerationRequest,
    GenerationStream,
)


class GenerationBatch:
    """A `mrs.runtime.generation.GenerationStream` over several requests.

    Choices are counted through: those of the second request follow those of the first. At most
    twice as many choices as the engine has slots are with it at once, so that one client with many
    prompts does not fill the queue; the others follow as these end. When one request fails, all
    are given up.

    Args:
        engine: what generates.
        requests: at least one.

    Raises:
        RequestError: the engine does not take one of those that it gets at once; it keeps none.
    """

    def __init__(self, engine: GenerationEngine, requests: Sequence[GenerationRequest]) -> None:
        self._engine = engine
        counts = [request.n for request in requests]
        self._left = deque(zip(accumulate(counts, initial=0), requests, strict=False))
        self._room = 2 * max(engine.stats().slots, 1)
        self._streams: dict[GenerationStream, asyncio.Task[None]] = {}
        self._arrived: list[GenerationDelta] = []
        self._news = asyncio.Event()
        self._error: Exception | None = None
        self._admit()

    def cancel(self) -> None:
        """Give all requests up. Idempotent."""
        self._left.clear()
        for stream in tuple(self._streams):
            stream.cancel()

    async def __aiter__(self) -> AsyncIterator[tuple[GenerationDelta, ...]]:
        """Iterate over all that has arrived since the last time, until every choice has ended."""
        try:
            while self._streams or self._arrived or self._error:
                await self._news.wait()
                self._news.clear()
                if self._error is not None:
                    raise self._error
                arrived, self._arrived = tuple(self._arrived), []
                if arrived:
                    yield arrived
        finally:
            self.cancel()
            for task in self._streams.values():
                task.cancel()

    def _admit(self) -> None:
        """Give the engine as many requests as it may have now."""
        while self._left and (self._room >= self._left[0][1].n or not self._streams):
            offset, request = self._left[0]
            try:
                stream = self._engine.submit(request)
            except QueueFullError:
                if not self._streams:
                    raise
                return  # When one of our own ends there is room again.
            except BaseException:
                self.cancel()
                raise
            self._left.popleft()
            self._room -= request.n
            self._streams[stream] = asyncio.ensure_future(self._follow(stream, offset, request.n))

    async def _follow(self, stream: GenerationStream, offset: int, choices: int) -> None:
        try:
            async for deltas in stream:
                self._arrived += (replace(one, index=one.index + offset) for one in deltas)
                self._news.set()
        except Exception as error:
            self._error = error
        del self._streams[stream]
        self._room += choices
        try:
            self._admit()
        except Exception as error:
            self._error = error
        self._news.set()
