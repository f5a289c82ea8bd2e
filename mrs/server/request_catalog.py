"""A catalog as requests use it: their models are told to their contexts, their engines observed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from weakref import WeakKeyDictionary

from mrs.runtime.generation import GenerationEngine
from mrs.server.model_catalog import ModelCatalog, ModelState
from mrs.server.request_context import current_context
from mrs.server.request_engine import EngineObserver, RequestEngine
from mrs.server.served_model import ModelDescription, ServedEmbedder, ServedModel, ServedReranker


class RequestCatalog:
    """A `ModelCatalog` over another one.

    Args:
        models: the other one.
        observer: who is told of the requests.
        timeout: seconds that an answer may take; None for any.
    """

    def __init__(
        self,
        models: ModelCatalog,
        observer: EngineObserver | None = None,
        timeout: float | None = None,
    ) -> None:
        self._models = models
        self._observer = observer
        self._timeout = timeout
        self._wrapped: WeakKeyDictionary[GenerationEngine, ServedModel] = WeakKeyDictionary()

    @asynccontextmanager
    async def lease(self, name: str | None) -> AsyncIterator[ServedModel]:
        """See `ModelCatalog.lease`."""
        async with self._models.lease(name) as model:
            _tell(model.name)
            yield self._with_request_engine(model)

    @asynccontextmanager
    async def lease_embedder(self, name: str | None) -> AsyncIterator[ServedEmbedder]:
        """See `ModelCatalog.lease_embedder`."""
        async with self._models.lease_embedder(name) as model:
            _tell(model.name)
            yield model

    @asynccontextmanager
    async def lease_ranker(
        self, name: str | None
    ) -> AsyncIterator[ServedReranker | ServedEmbedder]:
        """See `ModelCatalog.lease_ranker`."""
        async with self._models.lease_ranker(name) as model:
            _tell(model.name)
            yield model

    def _with_request_engine(self, model: ServedModel) -> ServedModel:
        """The model with an engine for requests; the same one each time, for what it caches."""
        wrapped = self._wrapped.get(model.engine)
        if wrapped is None:
            engine = RequestEngine(model.engine, model.name, self._observer, self._timeout)
            wrapped = self._wrapped[model.engine] = replace(model, engine=engine)
        return wrapped

    @property
    def default(self) -> ModelDescription:
        """See `ModelCatalog`, as with all that follows."""
        return self._models.default

    def states(self) -> tuple[ModelState, ...]:
        """All models."""
        return self._models.states()

    def state(self, name: str) -> ModelState:
        """One model."""
        return self._models.state(name)

    async def unload(self, name: str) -> ModelState:
        """Give its memory back."""
        return await self._models.unload(name)

    async def reload(self, name: str) -> ModelState:
        """Load it."""
        return await self._models.reload(name)

    def engines(self) -> Mapping[str, GenerationEngine]:
        """Of the loaded models."""
        return self._models.engines()

    @property
    def ready(self) -> bool:
        """Whether requests are taken."""
        return self._models.ready

    @property
    def alive(self) -> bool:
        """Whether all engines run."""
        return self._models.alive

    def drain(self) -> None:
        """Take no new requests."""
        self._models.drain()


def _tell(model: str) -> None:
    context = current_context()
    if context is not None:
        context.model = model
