"""Assembles the server: routes, layers and error replies around the served models."""

from __future__ import annotations

from fastapi import FastAPI

from mrs import __version__
from mrs.server.access_log import AccessLogMiddleware
from mrs.server.anthropic.messages import messages_router
from mrs.server.anthropic.responses import MessageStreamEvent
from mrs.server.anthropic.schemas import CountTokensRequest, MessagesRequest
from mrs.server.errors import add_error_handlers
from mrs.server.generation import GenerationContext
from mrs.server.health import health_router
from mrs.server.host_check import HostCheckMiddleware
from mrs.server.lifecycle import Lifecycle
from mrs.server.model_catalog import ModelCatalog, SingleModel
from mrs.server.openai.chat_completions import chat_completions_router
from mrs.server.openai.completion_schemas import CompletionChunk, CompletionRequest
from mrs.server.openai.completions import completions_router
from mrs.server.openai.model_schemas import ModelOperationRequest
from mrs.server.openai.models import models_router
from mrs.server.openai.schemas import ChatCompletionChunk, ChatCompletionRequest
from mrs.server.openapi import describe, docs_router
from mrs.server.served_model import ServedModel
from mrs.server.settings import ServerSettings


def create_app(
    models: ModelCatalog | ServedModel,
    settings: ServerSettings,
    lifecycle: Lifecycle | None = None,
) -> FastAPI:
    """Return an application that answers for models.

    Args:
        models: all of them, or the one.
        settings: limits and intervals.
        lifecycle: what whoever runs the application uses to drain it; one of its own if None.
    """
    if isinstance(models, ServedModel):
        models = SingleModel(models)
    lifecycle = lifecycle or Lifecycle(models)
    app = FastAPI(
        title="mrs",
        version=__version__,
        description=f"OpenAI-compatible API for `{models.default.name}`.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    server = GenerationContext(models, lifecycle, settings.keep_alive_interval)
    app.include_router(chat_completions_router(server, settings))
    app.include_router(completions_router(server, settings))
    app.include_router(messages_router(server, settings))
    app.include_router(models_router(models, settings))
    app.include_router(health_router(models, lifecycle))
    app.include_router(docs_router())
    describe(
        app,
        [
            *(ChatCompletionRequest, ChatCompletionChunk, ModelOperationRequest),
            *(CompletionRequest, CompletionChunk),
            *(MessagesRequest, CountTokensRequest, MessageStreamEvent),
        ],
    )
    add_error_handlers(app)
    # The last one added is the outermost: what the host check refuses is logged as well.
    if settings.allowed_hosts is not None:
        app.add_middleware(HostCheckMiddleware, allowed=settings.allowed_hosts)
    app.add_middleware(AccessLogMiddleware)
    return app
