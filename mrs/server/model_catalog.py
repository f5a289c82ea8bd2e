"""Which models a server answers for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from mrs.errors import MrsError, RequestError
from mrs.runtime.generation import GenerationEngine
from mrs.server.model_names import ModelNames
from mrs.server.served_model import (
    ModelDescription,
    ModelKind,
    ServedEmbedder,
    ServedModel,
    ServedReranker,
)


class ModelStatus(StrEnum):
    """Where a model is, in mistral.rs's words."""

    LOADED = "loaded"
    UNLOADED = "unloaded"
    RELOADING = "reloading"
    NOT_FOUND = "not_found"
    NO_LOADER_CONFIG = "no_loader_config"
    INTERNAL_ERROR = "internal_error"


@dataclass(frozen=True)
class ModelState:
    """A model and where it is.

    Attributes:
        description: what is known of it.
        status: where it is.
        error: why it could not be loaded the last time, if it could not; for clients.
    """

    description: ModelDescription
    status: ModelStatus
    error: str | None = None


class ModelUnavailableError(RequestError):
    """A model is known but cannot be loaded now; its reason is a code of the error tree."""

    code = "model_unavailable"
    status = 503

    def __init__(self, name: str, reason: MrsError, *, retry_after: int = 5) -> None:
        super().__init__(
            f"The model {name!r} cannot be loaded now ({reason.code}).",
            hint="The server's log tells more.",
            param="model",
        )
        self.reason = reason
        self.retry_after = retry_after


class ModelBusyError(RequestError):
    """A model cannot be unloaded since it still answers."""

    code = "model_busy"
    status = 409


class ModelFixedError(RequestError):
    """A model can be neither unloaded nor reloaded."""

    code = ModelStatus.NO_LOADER_CONFIG.value
    status = 409


class ModelCatalog(Protocol):
    """The models by name. All methods belong to the event loop's thread."""

    def lease(self, name: str | None) -> AbstractAsyncContextManager[ServedModel]:
        """The model that a request for text means, for as long as the request needs it.

        A model that is not loaded is loaded first.

        Args:
            name: as the client wrote it; None or ``default`` for the default model.

        Raises:
            UnknownModelError: no model has that name.
            WrongModelKindError: the model generates no text.
            ModelUnavailableError: it cannot be loaded.
            ShuttingDownError: the server drains.
        """

    def lease_embedder(self, name: str | None) -> AbstractAsyncContextManager[ServedEmbedder]:
        """The same for a model that makes vectors of texts."""

    def lease_ranker(
        self, name: str | None
    ) -> AbstractAsyncContextManager[ServedReranker | ServedEmbedder]:
        """The same for a reranker, or an embedding model, whose vectors can be compared.

        The default is the first reranker, else the first embedding model.
        """

    @property
    def default(self) -> ModelDescription:
        """The model that is meant where none is named."""

    def states(self) -> tuple[ModelState, ...]:
        """All models, the default first."""

    def state(self, name: str) -> ModelState:
        """One model.

        Raises:
            UnknownModelError: no model has that name.
        """

    async def unload(self, name: str) -> ModelState:
        """Give a model's memory back, after its last answer; the next request loads it again.

        Raises:
            UnknownModelError: no model has that name.
            ModelBusyError: it answers for too long.
            ModelFixedError: this catalog's models stay.
        """

    async def reload(self, name: str) -> ModelState:
        """Load a model, again if it is loaded.

        Raises:
            ModelUnavailableError: it cannot be loaded; and as `unload`.
        """

    def engines(self) -> Mapping[str, GenerationEngine]:
        """The engines of the models that are loaded now."""

    @property
    def ready(self) -> bool:
        """Whether a request sent now would be taken."""

    @property
    def alive(self) -> bool:
        """Whether all engines run."""

    def drain(self) -> None:
        """Take no new requests; those admitted go on."""


class SingleModel:
    """A catalog of one model that is always loaded.

    Args:
        model: the one.
    """

    def __init__(self, model: ServedModel) -> None:
        self._model = model
        self._names = ModelNames([model.description])

    @property
    def default(self) -> ModelDescription:
        """The one."""
        return self._model.description

    @asynccontextmanager
    async def lease(self, name: str | None) -> AsyncIterator[ServedModel]:
        """The model, by its name or as the default one."""
        self._names.find(name, ModelKind.TEXT)
        yield self._model

    @asynccontextmanager
    async def lease_embedder(self, name: str | None) -> AsyncIterator[ServedEmbedder]:
        """Always an error, since the one model generates text."""
        self._names.find(name, ModelKind.EMBEDDING)
        raise AssertionError("the one model makes no vectors")
        yield  # Makes this a generator.

    @asynccontextmanager
    async def lease_ranker(
        self, name: str | None
    ) -> AsyncIterator[ServedReranker | ServedEmbedder]:
        """Always an error, since the one model generates text."""
        self._names.find(name, ModelKind.RERANKER, ModelKind.EMBEDDING)
        raise AssertionError("the one model ranks nothing")
        yield  # Makes this a generator.

    def states(self) -> tuple[ModelState, ...]:
        """The one."""
        return (ModelState(self._model.description, ModelStatus.LOADED),)

    def state(self, name: str) -> ModelState:
        """The one, by its name or as the default one."""
        self._names.find(name)
        return self.states()[0]

    async def unload(self, name: str) -> ModelState:
        """Always an error."""
        raise self._fixed(name)

    async def reload(self, name: str) -> ModelState:
        """Always an error."""
        raise self._fixed(name)

    def _fixed(self, name: str) -> ModelFixedError:
        found = self._names.find(name)
        return ModelFixedError(f"The model {found.name!r} stays loaded.", param="model_id")

    def engines(self) -> Mapping[str, GenerationEngine]:
        """The one's."""
        return {self._model.name: self._model.engine}

    @property
    def ready(self) -> bool:
        """As its engine is."""
        return self._model.engine.ready

    @property
    def alive(self) -> bool:
        """As its engine is."""
        return self._model.engine.alive

    @property
    def stalled(self) -> bool:
        """As its engine is."""
        return bool(getattr(self._model.engine, "stalled", False))

    def drain(self) -> None:
        """As its engine does."""
        self._model.engine.drain()
