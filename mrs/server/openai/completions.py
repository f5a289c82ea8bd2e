"""``POST /v1/completions``."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response

from mrs.server.generation import Answer, GenerationContext, GenerationResponse
from mrs.server.openai.completion_answer import completion_answer
from mrs.server.openai.completion_request import parse_completion_request, prepare_completion
from mrs.server.openai.completion_schemas import Completion, CompletionRequest
from mrs.server.openai.error_responses import ERRORS
from mrs.server.openapi import json_body, schema_reference
from mrs.server.request_body import read_json_body
from mrs.server.served_model import ServedModel
from mrs.server.settings import ServerSettings

_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "model": Completion,
        "description": "The texts; with `stream`, events that each hold a chunk, then `[DONE]`.",
        "content": {"text/event-stream": {"schema": schema_reference("CompletionChunk")}},
    },
    **ERRORS,
}


def completions_router(server: GenerationContext, settings: ServerSettings) -> APIRouter:
    """Return the route."""
    router = APIRouter(tags=["completions"])

    @router.post(
        "/v1/completions",
        response_class=Response,
        responses=_RESPONSES,
        openapi_extra=json_body("CompletionRequest"),
    )
    async def create_completion(request: Request) -> Response:
        """Continue texts."""
        body = await read_json_body(request, settings.max_body_bytes)
        return GenerationResponse(
            server,
            partial(parse_completion_request, body),
            _prepare,
            in_thread=len(body) > settings.inline_body_bytes,
        )

    return router


def _prepare(request: CompletionRequest, model: ServedModel) -> Answer:
    return completion_answer(request, prepare_completion(request, model), model)
