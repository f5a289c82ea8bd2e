"""The models of a server, in memory as long as they are needed and there is room for them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from mrs.errors import MrsError, ShuttingDownError
from mrs.memory import available_memory, give_memory_back
from mrs.runtime.generation import GenerationEngine
from mrs.server.model_catalog import ModelBusyError, ModelState, ModelUnavailableError
from mrs.server.model_names import ModelNames
from mrs.server.model_source import AnyServedModel, ModelSource, OpenModel
from mrs.server.resident import Resident
from mrs.server.served_model import (
    ModelDescription,
    ModelKind,
    ServedEmbedder,
    ServedModel,
    ServedReranker,
)

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

UNLOAD_TIMEOUT = 30.0
"""Seconds that a model which is to go may still answer."""
RETRY_INTERVAL = 5.0
"""Seconds for which the reason why a model could not be loaded is told without another try."""


class NoMemoryError(MrsError):
    """A model does not fit into memory beside those that are in use."""

    code = "insufficient_memory"
    exit_code = 7


class ResidentModels:
    """A `ModelCatalog` that loads on first use, one model at a time, in a thread of its own.

    Where memory is short for a model, the least recently used of the others goes, an idle one
    first. A model that is alone is loaded however much it needs: the estimate may be wrong.

    Args:
        sources: the models.
        names: what they are called.
        idle_unload: seconds after its last answer that a model stays loaded; None for ever.
        unload_timeout: seconds that a model which is to go may still answer.
        free_memory: tells bytes of free memory, or None if nobody knows.
    """

    def __init__(
        self,
        sources: Iterable[ModelSource],
        names: ModelNames,
        *,
        idle_unload: float | None = None,
        unload_timeout: float = UNLOAD_TIMEOUT,
        free_memory: Callable[[], int | None] = available_memory,
    ) -> None:
        self._residents = {source.description.name: Resident(source) for source in sources}
        self._names = names
        self._idle_unload = idle_unload
        self._unload_timeout = unload_timeout
        self._free_memory = free_memory
        self._draining = False
        self._one_at_a_time = asyncio.Lock()
        self._worker = ThreadPoolExecutor(1, "mrs-loader")

    # --- before and after the event loop ----------------------------------------------------------

    def load_now(self, name: str | None = None) -> OpenModel:
        """Load a model before the server starts; blocks.

        Raises:
            MrsError: it cannot be loaded.
        """
        resident = self._residents[self._names.find(name).name]
        if resident.opened is None:
            resident.opened = resident.source.load()
        return resident.opened

    def close(self) -> None:
        """Let all models go. Nothing may be leased any more."""
        self._draining = True
        self._worker.shutdown()
        for resident in self._residents.values():
            if resident.opened is not None:
                resident.opened.close()
                resident.opened = None

    # --- the catalog ----------------------------------------------------------------------------

    @property
    def default(self) -> ModelDescription:
        """The first model."""
        return self._names.default

    @asynccontextmanager
    async def lease(self, name: str | None) -> AsyncIterator[ServedModel]:
        """A model that generates text; see `ModelCatalog.lease`."""
        async with self._lease(self._names.find(name, ModelKind.TEXT).name) as model:
            assert isinstance(model, ServedModel)
            yield model

    @asynccontextmanager
    async def lease_embedder(self, name: str | None) -> AsyncIterator[ServedEmbedder]:
        """A model that makes vectors; see `ModelCatalog.lease_embedder`."""
        async with self._lease(self._names.find(name, ModelKind.EMBEDDING).name) as model:
            assert isinstance(model, ServedEmbedder)
            yield model

    @asynccontextmanager
    async def lease_ranker(
        self, name: str | None
    ) -> AsyncIterator[ServedReranker | ServedEmbedder]:
        """A model that ranks documents; see `ModelCatalog.lease_ranker`."""
        found = self._names.find(name, ModelKind.RERANKER, ModelKind.EMBEDDING)
        async with self._lease(found.name) as model:
            assert not isinstance(model, ServedModel)
            yield model

    def states(self) -> tuple[ModelState, ...]:
        """All models, in the order of the command line."""
        return tuple(self._residents[model.name].state for model in self._names.models)

    def state(self, name: str) -> ModelState:
        """One model, by any of its names."""
        return self._residents[self._names.find(name).name].state

    async def unload(self, name: str) -> ModelState:
        """Unload a model; see `ModelCatalog.unload`."""
        resident = self._residents[self._names.find(name).name]
        await self._unload(resident)
        return resident.state

    async def reload(self, name: str) -> ModelState:
        """Unload and load a model; see `ModelCatalog.reload`."""
        resident = self._residents[self._names.find(name).name]
        await self._unload(resident)
        resident.failure = None
        async with self._lease(resident.name):
            return resident.state

    def engines(self) -> Mapping[str, GenerationEngine]:
        """The engines of the models that are loaded now."""
        opened = ((each.name, each.opened) for each in self._residents.values())
        return {
            name: model.model.engine
            for name, model in opened
            if model is not None and isinstance(model.model, ServedModel)
        }

    @property
    def ready(self) -> bool:
        """Whether a request sent now would be taken."""
        return not self._draining and all(engine.ready for engine in self.engines().values())

    @property
    def alive(self) -> bool:
        """Whether all engines run."""
        return all(engine.alive for engine in self.engines().values())

    @property
    def stalled(self) -> bool:
        """Whether an engine's step takes longer than any should."""
        return any(getattr(engine, "stalled", False) for engine in self.engines().values())

    def drain(self) -> None:
        """Take no new requests and load nothing more; those admitted go on."""
        self._draining = True
        for engine in self.engines().values():
            engine.drain()

    def start(self) -> None:
        """Begin to count the idle time of what was loaded before the event loop ran."""
        for resident in self._residents.values():
            self._unload_when_idle(resident)

    # --- leases ---------------------------------------------------------------------------------

    @asynccontextmanager
    async def _lease(self, name: str) -> AsyncIterator[AnyServedModel]:
        resident = self._residents[name]
        with resident.wanted():
            opened = await self._opened(resident)
            resident.take()
        try:
            yield opened.model
        finally:
            resident.give_back()
            self._unload_when_idle(resident)

    async def _opened(self, resident: Resident) -> OpenModel:
        """The loaded model; nothing may be awaited between this and its use."""
        while True:
            if self._draining:
                raise ShuttingDownError("The server is shutting down.")
            if resident.unloading is not None:
                with contextlib.suppress(ModelBusyError):
                    await asyncio.shield(resident.unloading)
            elif resident.opened is not None:
                return resident.opened
            else:
                resident.require_no_recent_failure(RETRY_INTERVAL)
                await asyncio.shield(self._loading(resident))

    # --- loading --------------------------------------------------------------------------------

    def _loading(self, resident: Resident) -> asyncio.Future[None]:
        """The one load of a model that goes on, for all who wait for it."""
        if resident.loading is None:
            resident.loading = _start(self._load(resident), resident.loading_ended)
        return resident.loading

    async def _load(self, resident: Resident) -> None:
        async with self._one_at_a_time:
            try:
                await self._make_room(resident)
                logger.info("Loading %s.", resident.name)
                # Assigned by the thread: `close` must find it even if the loop has ended by then.
                await self._in_thread(resident.open)
            except Exception as error:
                logger.error("The model %s cannot be loaded.", resident.name, exc_info=error)
                reason = error if isinstance(error, MrsError) else MrsError(str(error))
                resident.loading_failed(reason)
                raise ModelUnavailableError(
                    resident.name, reason, retry_after=int(RETRY_INTERVAL)
                ) from error
        resident.failure = None
        logger.info("Loaded %s.", resident.name)

    async def _make_room(self, resident: Resident) -> None:
        needed = resident.source.memory
        while (free := self._free_memory()) is not None and free < needed:
            others = [other for other in self._residents.values() if other.opened is not None]
            if not others:
                return
            victim = min(others, key=lambda other: (other.in_use, other.last_used))
            logger.info("Unloading %s to make room for %s.", victim.name, resident.name)
            try:
                await self._unload(victim)
            except ModelBusyError as error:
                raise NoMemoryError(
                    f"{resident.name} needs about {needed >> 20} MiB, {free >> 20} MiB are free, "
                    f"and {victim.name} is in use."
                ) from error

    # --- unloading ------------------------------------------------------------------------------

    async def _unload(self, resident: Resident) -> None:
        if resident.loading is not None:
            with contextlib.suppress(MrsError):
                await asyncio.shield(resident.loading)
        if resident.unloading is None:
            if resident.opened is None:
                return
            resident.unloading = _start(self._close(resident), resident.unloading_ended)
        await asyncio.shield(resident.unloading)

    async def _close(self, resident: Resident) -> None:
        try:
            if not resident.idle.is_set():
                await asyncio.wait_for(resident.idle.wait(), self._unload_timeout)
        except TimeoutError as error:
            raise ModelBusyError(
                f"The model {resident.name!r} still answers {resident.users} requests.",
                hint="Try again later.",
                param="model_id",
            ) from error
        opened, resident.opened = resident.opened, None
        if opened is not None:
            await self._in_thread(opened.close)
            del opened
            await self._in_thread(give_memory_back)
            logger.info("Unloaded %s.", resident.name)

    def _unload_when_idle(self, resident: Resident) -> None:
        if self._idle_unload is not None and resident.opened is not None and not resident.in_use:
            resident.start_timer(self._idle_unload, self._unload_if_idle)

    def _unload_if_idle(self, resident: Resident) -> None:
        if not resident.in_use and resident.unloading is None and resident.opened is not None:
            resident.unloading = _start(self._close(resident), resident.unloading_ended)

    async def _in_thread(self, function: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._worker, function)


def _start(
    work: Coroutine[Any, Any, None], ended: Callable[[asyncio.Future[None]], None]
) -> asyncio.Future[None]:
    task = asyncio.ensure_future(work)
    task.add_done_callback(ended)
    return task
