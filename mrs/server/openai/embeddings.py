"""``POST /v1/embeddings``."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import partial
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from mrs.runtime.embedder import Embeddings, TextOrTokens
from mrs.server.embedding_queue import EmbeddingQueue
from mrs.server.generation import GenerationContext
from mrs.server.interruptible_response import InterruptibleResponse
from mrs.server.openai.embedding_schemas import EmbeddingInput, EmbeddingList, EmbeddingRequest
from mrs.server.openai.error_responses import ERRORS
from mrs.server.openapi import json_body
from mrs.server.request_body import read_json_body
from mrs.server.request_context import current_context
from mrs.server.settings import ServerSettings
from mrs.server.validation import parse_request

_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"model": EmbeddingList, "description": "The vectors."},
    **ERRORS,
}


def embeddings_router(
    server: GenerationContext, queue: EmbeddingQueue, settings: ServerSettings
) -> APIRouter:
    """Return the route."""
    router = APIRouter(tags=["embeddings"])

    @router.post(
        "/v1/embeddings",
        response_class=Response,
        responses=_RESPONSES,
        openapi_extra=json_body("EmbeddingRequest"),
    )
    async def create_embeddings(request: Request) -> Response:
        """Make vectors of texts."""
        body = await read_json_body(request, settings.max_body_bytes)
        in_thread = len(body) > settings.inline_body_bytes
        return InterruptibleResponse(
            server.lifecycle, partial(_embed, server, queue, body, in_thread)
        )

    return router


async def _embed(
    server: GenerationContext, queue: EmbeddingQueue, body: bytes, in_thread: bool
) -> bytes:
    asked = await server.parse(partial(parse_request, EmbeddingRequest, body), in_thread)
    async with server.models.lease_embedder(asked.model) as model:
        found = await queue.embed(
            model.embedder,
            _texts(asked.input),
            purpose=asked.prompt_name,
            truncate=bool(asked.truncate_sequence),
            dimensions=asked.dimensions,
        )
    tokens = sum(found.tokens)
    if (context := current_context()) is not None:
        context.prompt_tokens = tokens
    return orjson.dumps(
        {
            "object": "list",
            "data": _data(found, in_base64=asked.encoding_format == "base64"),
            "model": model.name,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        },
        option=orjson.OPT_SERIALIZE_NUMPY,
    )


def _texts(given: EmbeddingInput) -> Sequence[TextOrTokens]:
    if isinstance(given, str):
        return [given]
    return [given] if isinstance(given[0], int) else given


def _data(found: Embeddings, *, in_base64: bool) -> list[dict[str, Any]]:
    return [
        {
            "object": "embedding",
            "index": index,
            "embedding": base64.b64encode(vector.astype("<f4").tobytes()).decode()
            if in_base64
            else vector,
        }
        for index, vector in enumerate(found.vectors)
    ]
