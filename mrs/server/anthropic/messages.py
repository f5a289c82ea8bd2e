"""``POST /v1/messages`` and ``POST /v1/messages/count_tokens``."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response

from mrs.server.anthropic.message_answer import message_answer
from mrs.server.anthropic.request import count_tokens, parse, prepare_message
from mrs.server.anthropic.responses import AnthropicErrorBody, MessageResponse, TokensCount
from mrs.server.anthropic.schemas import CountTokensRequest, MessagesRequest
from mrs.server.generation import Answer, GenerationContext, GenerationResponse, run_preparation
from mrs.server.openapi import json_body, schema_reference
from mrs.server.request_body import read_json_body
from mrs.server.served_model import ServedModel
from mrs.server.settings import ServerSettings

_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": AnthropicErrorBody, "description": "The request cannot be honoured."},
    404: {"model": AnthropicErrorBody, "description": "The model is not served."},
    413: {"model": AnthropicErrorBody, "description": "The body is too large."},
    429: {"model": AnthropicErrorBody, "description": "The queue is full; see `Retry-After`."},
    500: {"model": AnthropicErrorBody, "description": "The server failed; see its log."},
    529: {"model": AnthropicErrorBody, "description": "The server takes no requests now."},
}
_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "model": MessageResponse,
        "description": "The answer; with `stream`, named events that end with `message_stop`.",
        "content": {"text/event-stream": {"schema": schema_reference("MessageStreamEvent")}},
    },
}


def messages_router(server: GenerationContext, settings: ServerSettings) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["messages"])

    @router.post(
        "/v1/messages",
        response_class=Response,
        responses=_ANSWER | _ERRORS,
        openapi_extra=json_body("MessagesRequest"),
    )
    async def create_message(request: Request) -> Response:
        """Continue a conversation, as Anthropic's clients ask for it."""
        body = await read_json_body(request, settings.max_body_bytes)
        return GenerationResponse(
            server,
            partial(parse, MessagesRequest, body),
            _prepare,
            in_thread=len(body) > settings.inline_body_bytes,
        )

    @router.post(
        "/v1/messages/count_tokens",
        responses=_ERRORS,
        openapi_extra=json_body("CountTokensRequest"),
    )
    async def count_message_tokens(request: Request) -> TokensCount:
        """Count the tokens of a conversation, its tools and its system prompt included."""
        body = await read_json_body(request, settings.max_body_bytes)
        in_thread = len(body) > settings.inline_body_bytes
        counted = await server.parse(partial(parse, CountTokensRequest, body), in_thread)
        async with server.models.lease(counted.model) as model:
            count = await run_preparation(partial(count_tokens, counted, model), in_thread)
        return TokensCount(input_tokens=count)

    return router


def _prepare(request: MessagesRequest, model: ServedModel) -> Answer:
    return message_answer(request, prepare_message(request, model), model)
