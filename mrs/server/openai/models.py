"""``/v1/models``: which models there are, and where each is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter, Request, Response

from mrs.errors import RequestError, UnknownModelError
from mrs.server.anthropic.models import ModelInfo, ModelInfoPage, model_info, model_page
from mrs.server.dialect import Dialect
from mrs.server.model_catalog import (
    ModelCatalog,
    ModelFixedError,
    ModelState,
    ModelStatus,
)
from mrs.server.openai.model_schemas import (
    ModelCard,
    ModelList,
    ModelOperationRequest,
    ModelStatusResponse,
)
from mrs.server.openai.schemas import ErrorBody
from mrs.server.openapi import json_body
from mrs.server.request_body import read_json_body
from mrs.server.request_context import context_of
from mrs.server.settings import ServerSettings
from mrs.server.validation import parse_request

_BODY = json_body("ModelOperationRequest")
_NOT_FOUND = {"model": ModelStatusResponse, "description": "The model is not served."}
_FAILURES: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorBody, "description": "The body is malformed."},
    404: _NOT_FOUND,
    409: {"model": ModelStatusResponse, "description": "The model is in use, or stays loaded."},
    503: {"model": ModelStatusResponse, "description": "The model cannot be loaded."},
}
Operation = Callable[[str], Awaitable[ModelState]]


def models_router(models: ModelCatalog, settings: ServerSettings) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["models"])

    @router.get("/v1/models")
    async def list_models(
        request: Request,
        limit: str | None = None,
        after_id: str | None = None,
        before_id: str | None = None,
    ) -> ModelList | ModelInfoPage:
        """List the models that are served, the default one first.

        With the header `anthropic-version` it is a page of Anthropic's, for which the parameters
        are.
        """
        if _asks_as_anthropics(request):
            known = [state.description for state in models.states()]
            return model_page(known, limit=limit, after_id=after_id, before_id=before_id)
        return ModelList(data=[_card(state) for state in models.states()])

    # A name may hold slashes.
    @router.get("/v1/models/{name:path}", responses={404: {"model": ErrorBody}})
    async def get_model(request: Request, name: str) -> ModelCard | ModelInfo:
        """Describe one model; `default` is the first one."""
        state = models.state(name)
        return model_info(state.description) if _asks_as_anthropics(request) else _card(state)

    async def answer(request: Request, response: Response, do: Operation) -> ModelStatusResponse:
        body = await read_json_body(request, settings.max_body_bytes)
        name = parse_request(ModelOperationRequest, body).model_id
        try:
            state = await do(name)
        except RequestError as error:
            response.status_code = error.status
            return ModelStatusResponse(
                model_id=name, status=_status_after(error, models, name), error=error.message
            )
        return ModelStatusResponse(
            model_id=state.description.name, status=state.status, error=state.error
        )

    @router.post(
        "/v1/models/status", responses={400: _FAILURES[400], 404: _NOT_FOUND}, openapi_extra=_BODY
    )
    async def get_model_status(request: Request, response: Response) -> ModelStatusResponse:
        """Tell where a model is."""

        async def look(name: str) -> ModelState:
            return models.state(name)

        return await answer(request, response, look)

    @router.post("/v1/models/unload", responses=_FAILURES, openapi_extra=_BODY)
    async def unload_model(request: Request, response: Response) -> ModelStatusResponse:
        """Give a model's memory back after its last answer; the next request loads it again."""
        return await answer(request, response, models.unload)

    @router.post("/v1/models/reload", responses=_FAILURES, openapi_extra=_BODY)
    async def reload_model(request: Request, response: Response) -> ModelStatusResponse:
        """Load a model, again if it is loaded; returns when it is ready."""
        return await answer(request, response, models.reload)

    return router


def _asks_as_anthropics(request: Request) -> bool:
    return context_of(request.scope).dialect is Dialect.ANTHROPIC


def _card(state: ModelState) -> ModelCard:
    model = state.description
    return ModelCard(
        id=model.name,
        created=model.created,
        root=model.name,
        max_model_len=model.max_model_len,
        kind=model.kind,
        status=state.status,
        quant=model.quant or None,
        architecture=model.architecture or None,
    )


def _status_after(error: RequestError, models: ModelCatalog, name: str) -> ModelStatus:
    if isinstance(error, UnknownModelError):
        return ModelStatus.NOT_FOUND
    if isinstance(error, ModelFixedError):
        return ModelStatus.NO_LOADER_CONFIG
    return models.state(name).status
