"""Assembles the server: routes, layers and error replies around the served models."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, FastAPI
from starlette.middleware.cors import CORSMiddleware

from mrs import __version__
from mrs.server.access_log import AccessLog
from mrs.server.admin.system import system_router
from mrs.server.anthropic.messages import messages_router
from mrs.server.anthropic.responses import MessageStreamEvent
from mrs.server.anthropic.schemas import CountTokensRequest, MessagesRequest
from mrs.server.embedding_queue import EmbeddingQueue
from mrs.server.errors import add_error_handlers
from mrs.server.generation import GenerationContext
from mrs.server.health import health_router
from mrs.server.host_check import HostCheckMiddleware
from mrs.server.key_check import KeyCheckMiddleware
from mrs.server.lifecycle import Lifecycle
from mrs.server.metrics.server_metrics import ServerMetrics, metrics_router
from mrs.server.model_catalog import ModelCatalog, SingleModel
from mrs.server.openai.chat_completions import chat_completions_router
from mrs.server.openai.completion_schemas import CompletionChunk, CompletionRequest
from mrs.server.openai.completions import completions_router
from mrs.server.openai.embedding_schemas import EmbeddingRequest
from mrs.server.openai.embeddings import embeddings_router
from mrs.server.openai.model_schemas import ModelOperationRequest
from mrs.server.openai.models import models_router
from mrs.server.openai.rerank import rerank_router
from mrs.server.openai.rerank_schemas import RerankRequest
from mrs.server.openai.schemas import ChatCompletionChunk, ChatCompletionRequest
from mrs.server.openai.tokenization import tokenization_router
from mrs.server.openai.tokenization_schemas import DetokenizeRequest, TokenizeRequest
from mrs.server.openapi import describe, docs_router, openapi_document
from mrs.server.origin_check import OriginCheckMiddleware
from mrs.server.request_catalog import RequestCatalog
from mrs.server.request_middleware import RequestMiddleware, RequestObserver
from mrs.server.responses.creation import ResponsesContext
from mrs.server.responses.database import ResponseDatabase, StoreLimits
from mrs.server.responses.documents import ResponseStreamEvent
from mrs.server.responses.endpoints import responses_router
from mrs.server.responses.runs import ResponseRuns
from mrs.server.responses.schemas import ResponsesRequest
from mrs.server.responses.store import ResponseStore
from mrs.server.served_model import ServedModel
from mrs.server.settings import ServerSettings
from mrs.server.tracing import open_tracing


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
    metrics = ServerMetrics(models) if settings.metrics else None
    models = RequestCatalog(
        models, metrics.generation if metrics else None, settings.request_timeout
    )
    server = GenerationContext(models, lifecycle, settings.keep_alive_interval, settings.limits)
    app.include_router(chat_completions_router(server, settings))
    app.include_router(completions_router(server, settings))
    app.include_router(messages_router(server, settings))
    queue = EmbeddingQueue()
    app.include_router(embeddings_router(server, queue, settings))
    app.include_router(rerank_router(server, queue, settings))
    app.include_router(tokenization_router(server, settings))
    app.include_router(_responses_router(server, settings))
    app.include_router(models_router(models, settings))
    app.include_router(health_router(models, lifecycle))
    app.include_router(system_router(settings.repository))
    app.include_router(docs_router())
    app.add_route("/api-doc/openapi.json", openapi_document(app), include_in_schema=False)
    describe(
        app,
        [
            *(ChatCompletionRequest, ChatCompletionChunk, ModelOperationRequest),
            *(CompletionRequest, CompletionChunk),
            *(EmbeddingRequest, RerankRequest, TokenizeRequest, DetokenizeRequest),
            *(MessagesRequest, CountTokensRequest, MessageStreamEvent),
            *(ResponsesRequest, ResponseStreamEvent),
        ],
        settings.access,
    )
    add_error_handlers(app)
    observers: list[RequestObserver] = [AccessLog()] if settings.access_log else []
    if metrics is not None:
        app.include_router(metrics_router(metrics))
        observers.append(metrics.http)
    if settings.tracing:
        tracing = open_tracing()
        lifecycle.on_close(tracing.close)
        # The first to be told, since it names the trace that the log tells.
        observers.insert(0, tracing)
    _add_layers(app, settings, observers)
    return app


def _add_layers(
    app: FastAPI, settings: ServerSettings, observers: Sequence[RequestObserver]
) -> None:
    """What each request passes. The last one added is the outermost."""
    app.add_middleware(KeyCheckMiddleware, policy=settings.access)
    app.add_middleware(OriginCheckMiddleware, allowed=settings.cors_origins)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "POST", "DELETE"],
            # Whichever the clients of OpenAI and Anthropic send; cookies mean nothing here.
            allow_headers=["*"],
            allow_credentials=False,
            allow_private_network=True,
            expose_headers=["x-request-id", "request-id", "retry-after"],
        )
    if settings.allowed_hosts is not None:
        app.add_middleware(HostCheckMiddleware, allowed=settings.allowed_hosts)
    app.add_middleware(RequestMiddleware, settings=settings, observers=observers)


def _responses_router(server: GenerationContext, settings: ServerSettings) -> APIRouter:
    limits = StoreLimits(settings.responses_max_age, settings.responses_max_bytes)
    store = ResponseStore(ResponseDatabase(settings.responses_db, limits))
    server.lifecycle.on_close(store.close)
    runs = ResponseRuns(server.lifecycle)
    context = ResponsesContext(server, store, runs, settings.inline_body_bytes)
    return responses_router(context, settings)
