"""``POST /v1/chat/completions``."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response

from mrs.server.generation import Answer, GenerationContext, GenerationResponse
from mrs.server.openai.chat_answer import chat_answer
from mrs.server.openai.chat_request import parse_chat_request, prepared_conversation
from mrs.server.openai.error_responses import ERRORS
from mrs.server.openai.schemas import ChatCompletion, ChatCompletionRequest
from mrs.server.openapi import json_body, schema_reference
from mrs.server.request_body import read_json_body
from mrs.server.served_model import ServedModel
from mrs.server.settings import ServerSettings

_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "model": ChatCompletion,
        "description": "The answer; with `stream`, events that each hold a chunk, then `[DONE]`.",
        "content": {"text/event-stream": {"schema": schema_reference("ChatCompletionChunk")}},
    },
    **ERRORS,
}


def chat_completions_router(server: GenerationContext, settings: ServerSettings) -> APIRouter:
    """Return the route."""
    router = APIRouter(tags=["chat"])

    @router.post(
        "/v1/chat/completions",
        response_class=Response,
        responses=_RESPONSES,
        openapi_extra=json_body("ChatCompletionRequest"),
    )
    async def create_chat_completion(request: Request) -> Response:
        """Continue a conversation."""
        body = await read_json_body(request, settings.max_body_bytes)
        return GenerationResponse(
            server,
            partial(parse_chat_request, body),
            _prepare,
            in_thread=len(body) > settings.inline_body_bytes,
        )

    return router


def _prepare(request: ChatCompletionRequest, model: ServedModel) -> Answer:
    return chat_answer(request, prepared_conversation(request, model), model)
