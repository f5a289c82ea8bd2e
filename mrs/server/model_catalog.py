"""Which models a server answers for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from mrs.server.served_model import ServedModel


class ModelCatalog(Protocol):
    """The models by name."""

    def lease(self, name: str | None) -> AbstractAsyncContextManager[ServedModel]:
        """The model that a request means, for as long as the request needs it.

        Args:
            name: as the client wrote it; None or ``default`` for the default model.

        Raises:
            UnknownModelError: no model has that name.
        """


class SingleModel:
    """A catalog of one model that is always loaded.

    Args:
        model: the one.
    """

    def __init__(self, model: ServedModel) -> None:
        self._model = model

    @asynccontextmanager
    async def lease(self, name: str | None) -> AsyncIterator[ServedModel]:
        """The model, by its name or as the default one."""
        if name is not None:
            self._model.require(name)
        yield self._model
