"""``GET /v1/models`` and ``GET /v1/models/{model}``."""

from __future__ import annotations

from fastapi import APIRouter

from mrs.server.openai.schemas import ErrorBody, ModelCard, ModelList
from mrs.server.served_model import ServedModel


def models_router(model: ServedModel) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["models"])
    card = ModelCard(id=model.name, created=model.created, max_model_len=model.max_model_len)

    @router.get("/v1/models")
    async def list_models() -> ModelList:
        """List the models that are served."""
        return ModelList(data=[card])

    # A name may hold slashes.
    @router.get("/v1/models/{name:path}", responses={404: {"model": ErrorBody}})
    async def get_model(name: str) -> ModelCard:
        """Describe one model; `default` is the served one."""
        model.require(name)
        return card

    return router
