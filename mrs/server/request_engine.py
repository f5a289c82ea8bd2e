"""An engine as requests use it: kept apart by key, and observed."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Protocol

from mrs.runtime.generation import (
    EngineStats,
    GenerationDelta,
    GenerationEngine,
    GenerationRequest,
    GenerationStream,
)
from mrs.server.request_context import current_context


class StreamObserver(Protocol):
    """What is told of one stream. It must not raise."""

    def step(self, deltas: tuple[GenerationDelta, ...]) -> None:
        """All that has become available."""

    def ended(self) -> None:
        """Nobody reads on."""


class EngineObserver(Protocol):
    """What is told of an engine's requests. It must not raise."""

    def admitted(self, model: str, request: GenerationRequest) -> StreamObserver:
        """The engine took a request."""

    def refused(self, model: str, error: Exception) -> None:
        """The engine refused one."""


class RequestEngine:
    """A `GenerationEngine` over another one.

    Prompts that were computed for one API key are never reused for another: how quickly an answer
    begins would tell what others asked (CVE-2025-46570).

    Args:
        engine: the other one; whoever leases the model keeps it alive.
        model: what clients call it.
        observer: who is told of its requests.
        timeout: seconds that an answer may take which sets no bound of its own.
    """

    def __init__(
        self,
        engine: GenerationEngine,
        model: str,
        observer: EngineObserver | None = None,
        timeout: float | None = None,
    ) -> None:
        # Not held: this object is kept with the model, which must be free to go.
        self._reference = weakref.ref(engine)
        self._model = model
        self._observer = observer
        self._timeout = timeout

    @property
    def _engine(self) -> GenerationEngine:
        engine = self._reference()
        assert engine is not None, "the model is used without a lease"
        return engine

    @property
    def ready(self) -> bool:
        """As the engine is."""
        return self._engine.ready

    @property
    def alive(self) -> bool:
        """As the engine is."""
        return self._engine.alive

    def stats(self) -> EngineStats:
        """Of the engine."""
        return self._engine.stats()

    def drain(self) -> None:
        """As the engine does."""
        self._engine.drain()

    async def prepare(self, request: GenerationRequest) -> None:
        """Do what takes long before `submit`; see `GenerationEngine.prepare`."""
        try:
            await self._engine.prepare(request)
        except Exception as error:
            if self._observer is not None:
                self._observer.refused(self._model, error)
            raise

    def submit(self, request: GenerationRequest) -> GenerationStream:
        """Admit a request; see `GenerationEngine.submit`."""
        request = _with_salt(request)
        if request.timeout is None and self._timeout is not None:
            request = replace(request, timeout=self._timeout)
        try:
            stream = self._engine.submit(request)
        except Exception as error:
            if self._observer is not None:
                self._observer.refused(self._model, error)
            raise
        if self._observer is None:
            return stream
        return _ObservedStream(stream, self._observer.admitted(self._model, request))


class _ObservedStream:
    """A `GenerationStream` whose steps somebody is told of."""

    def __init__(self, stream: GenerationStream, observer: StreamObserver) -> None:
        self._stream = stream
        self._observer = observer

    def cancel(self) -> None:
        """Give the request up."""
        self._stream.cancel()

    async def __aiter__(self) -> AsyncIterator[tuple[GenerationDelta, ...]]:
        """Iterate over the stream."""
        try:
            async for deltas in self._stream:
                self._observer.step(deltas)
                yield deltas
        finally:
            self._observer.ended()


def _with_salt(request: GenerationRequest) -> GenerationRequest:
    context = current_context()
    if context is None or not context.principal:
        return request
    return replace(request, cache_salt=f"{context.principal}/{request.cache_salt}")
