"""``POST /v1/rerank``, and the same under the paths of Cohere's and Jina's clients."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import orjson
from fastapi import APIRouter, Request, Response

from mrs.errors import InvalidValueError
from mrs.runtime.embedder import Embeddings, Vectors, unit_vectors
from mrs.runtime.reranker import Scores
from mrs.server.embedding_queue import EmbeddingQueue
from mrs.server.generation import GenerationContext
from mrs.server.interruptible_response import InterruptibleResponse
from mrs.server.openai.error_responses import ERRORS
from mrs.server.openai.rerank_schemas import RerankRequest, RerankResponse
from mrs.server.openapi import json_body
from mrs.server.request_body import read_json_body
from mrs.server.request_context import current_context
from mrs.server.served_model import ServedEmbedder, ServedReranker
from mrs.server.settings import ServerSettings
from mrs.server.validation import parse_request

_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"model": RerankResponse, "description": "The documents, the best first."},
    **ERRORS,
}
# What embedding models call their prompts for either side, the usual name first.
_QUERY_PROMPTS = ("query",)
_DOCUMENT_PROMPTS = ("document", "passage", "corpus")


def rerank_router(
    server: GenerationContext, queue: EmbeddingQueue, settings: ServerSettings
) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["rerank"])

    @router.post("/rerank", include_in_schema=False)
    @router.post("/v2/rerank", include_in_schema=False)
    @router.post(
        "/v1/rerank",
        response_class=Response,
        responses=_RESPONSES,
        openapi_extra=json_body("RerankRequest"),
    )
    async def rerank(request: Request) -> Response:
        """Rank documents by a query."""
        body = await read_json_body(request, settings.max_body_bytes)
        in_thread = len(body) > settings.inline_body_bytes
        return InterruptibleResponse(
            server.lifecycle, partial(_rerank, server, queue, body, in_thread)
        )

    return router


async def _rerank(
    server: GenerationContext, queue: EmbeddingQueue, body: bytes, in_thread: bool
) -> bytes:
    asked = await server.parse(partial(parse_request, RerankRequest, body), in_thread)
    async with server.models.lease_ranker(asked.model) as model:
        scores = await _scores(queue, model, asked)
    tokens = sum(scores.tokens)
    if (context := current_context()) is not None:
        context.prompt_tokens = tokens
    return orjson.dumps(
        {
            "id": f"rerank-{uuid.uuid4().hex}",
            "model": model.name,
            "results": _results(scores.values, asked),
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            "meta": {"tokens": {"input_tokens": tokens}},
        }
    )


async def _scores(
    queue: EmbeddingQueue, model: ServedReranker | ServedEmbedder, asked: RerankRequest
) -> Scores:
    if isinstance(model, ServedEmbedder):
        return await _similarities(queue, model, asked)
    return await queue.score(
        model.reranker,
        asked.query,
        asked.texts(),
        truncate=bool(asked.truncate_sequence),
        max_document_tokens=asked.max_tokens_per_doc,
    )


async def _similarities(
    queue: EmbeddingQueue, model: ServedEmbedder, asked: RerankRequest
) -> Scores:
    """Cosine similarities of the documents' vectors to that of the query."""
    if asked.max_tokens_per_doc is not None:
        raise InvalidValueError(
            f"'max_tokens_per_doc' needs a reranker; {model.name!r} is an embedding model.",
            hint="Leave it out; 'truncate_sequence' cuts what is too long for the model.",
            param="max_tokens_per_doc",
        )

    async def embed(texts: Sequence[str], param: str, prompts: Sequence[str]) -> Embeddings:
        purpose = _first_known(prompts, model.embedder.facts.prompts)
        cut = bool(asked.truncate_sequence)
        try:
            return await queue.embed(model.embedder, texts, purpose=purpose, truncate=cut)
        except InvalidValueError as error:
            raise InvalidValueError(error.message, hint=error.hint, param=param) from error

    query = await embed([asked.query], "query", _QUERY_PROMPTS)
    documents = await embed(asked.texts(), "documents", _DOCUMENT_PROMPTS)
    values = unit_vectors(documents.vectors) @ unit_vectors(query.vectors)[0]
    return Scores(values, (*query.tokens, *documents.tokens))


def _first_known(names: Sequence[str], prompts: Mapping[str, str]) -> str | None:
    return next((name for name in names if name in prompts), None)


def _results(values: Vectors, asked: RerankRequest) -> list[dict[str, Any]]:
    """The best first; of equals, the one that the client named first."""
    order = np.argsort(-values, kind="stable")[: asked.top_n]
    texts = asked.texts() if asked.return_documents else None
    return [
        {"index": int(index), "relevance_score": float(values[index])}
        | ({} if texts is None else {"document": {"text": texts[index]}})
        for index in order
    ]
