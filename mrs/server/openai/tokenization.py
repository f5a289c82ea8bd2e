"""``/tokenize``, ``/detokenize`` and ``/apply-template``: what a model sees of a text."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from mrs.errors import InvalidValueError
from mrs.server.generation import GenerationContext, run_preparation
from mrs.server.openai.chat_request import parse_chat_request, prepared_conversation
from mrs.server.openai.error_responses import ERRORS
from mrs.server.openai.schemas import ChatCompletionRequest
from mrs.server.openai.tokenization_schemas import (
    ApplyTemplateResponse,
    DetokenizeRequest,
    DetokenizeResponse,
    TokenizeRequest,
    TokenizeResponse,
)
from mrs.server.openapi import json_body
from mrs.server.request_body import read_json_body
from mrs.server.served_model import ServedModel
from mrs.server.settings import ServerSettings
from mrs.server.validation import parse_request

_ERRORS: dict[int | str, dict[str, Any]] = {
    status: ERRORS[status] for status in (400, 404, 413, 503)
}
_TEXTS = ("content", "prompt", "messages")


def tokenization_router(server: GenerationContext, settings: ServerSettings) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["tokens"])

    async def answer(
        request: Request,
        parse: Callable[[bytes], Any],
        work: Callable[[Any, ServedModel], dict[str, Any]],
    ) -> Response:
        body = await read_json_body(request, settings.max_body_bytes)
        in_thread = len(body) > settings.inline_body_bytes
        asked = await server.parse(partial(parse, body), in_thread)
        async with server.models.lease(asked.model) as model:
            found = await run_preparation(partial(work, asked, model), in_thread)
        return Response(orjson.dumps(found), media_type="application/json")

    @router.post("/v1/tokenize", include_in_schema=False)
    @router.post(
        "/tokenize",
        response_class=Response,
        responses={200: {"model": TokenizeResponse}, **_ERRORS},
        openapi_extra=json_body("TokenizeRequest"),
    )
    async def tokenize(request: Request) -> Response:
        """Tell the tokens of a text, or of the prompt of a conversation."""
        return await answer(request, _parse_tokenize, _tokenized)

    @router.post("/v1/detokenize", include_in_schema=False)
    @router.post(
        "/detokenize",
        response_class=Response,
        responses={200: {"model": DetokenizeResponse}, **_ERRORS},
        openapi_extra=json_body("DetokenizeRequest"),
    )
    async def detokenize(request: Request) -> Response:
        """Tell the text of tokens."""
        return await answer(request, partial(parse_request, DetokenizeRequest), _detokenized)

    @router.post("/v1/apply-template", include_in_schema=False)
    @router.post(
        "/apply-template",
        response_class=Response,
        responses={200: {"model": ApplyTemplateResponse}, **_ERRORS},
        openapi_extra=json_body("ChatCompletionRequest"),
    )
    async def apply_template(request: Request) -> Response:
        """Show the prompt of a conversation, as the chat template renders it."""
        return await answer(request, parse_chat_request, _rendered)

    return router


def _parse_tokenize(body: bytes) -> TokenizeRequest | ChatCompletionRequest:
    request = parse_request(TokenizeRequest, body)
    given = [name for name in _TEXTS if getattr(request, name) is not None]
    if len(given) != 1:
        raise InvalidValueError(
            f"Exactly one of {', '.join(_TEXTS)} must be there; there are {len(given)}.",
            param=given[1] if given else _TEXTS[0],
        )
    if request.messages is None:
        return request
    return parse_chat_request(body)


def _tokenized(
    request: TokenizeRequest | ChatCompletionRequest, model: ServedModel
) -> dict[str, Any]:
    if isinstance(request, ChatCompletionRequest):
        ids = list(prepared_conversation(request, model).generation.prompt_ids)
        with_texts = bool((request.model_extra or {}).get("return_token_strs"))
        return _vllm_form(ids, model, with_texts=with_texts)
    special = request.add_special if request.add_special is not None else request.add_special_tokens
    text, usual = (request.prompt, True) if request.content is None else (request.content, False)
    ids = list(
        model.prompts.encode_text(
            text or "",
            parse_special=request.parse_special is not False,
            add_bos=usual if special is None else special,
        )
    )
    if request.content is None:
        return _vllm_form(ids, model, with_texts=bool(request.return_token_strs))
    return {"tokens": [_piece(token, model) for token in ids] if request.with_pieces else ids}


def _vllm_form(ids: list[int], model: ServedModel, *, with_texts: bool) -> dict[str, Any]:
    texts = [model.token_bytes(token).decode("utf-8", "replace") for token in ids]
    return {
        "count": len(ids),
        "max_model_len": model.max_model_len,
        "tokens": ids,
        "token_strs": texts if with_texts else None,
    }


def _piece(token: int, model: ServedModel) -> dict[str, Any]:
    raw = model.token_bytes(token)
    try:
        return {"id": token, "piece": raw.decode()}
    except UnicodeDecodeError:
        return {"id": token, "piece": list(raw)}


def _detokenized(request: DetokenizeRequest, model: ServedModel) -> dict[str, Any]:
    beyond = max(request.tokens, default=0)
    if beyond >= model.vocab_size:
        raise InvalidValueError(
            f"'tokens' holds {beyond}; the model's tokens are 0..{model.vocab_size - 1}.",
            param="tokens",
        )
    text = model.tokenizer.decode(request.tokens)
    return {"content": text, "prompt": text}


def _rendered(request: ChatCompletionRequest, model: ServedModel) -> dict[str, Any]:
    ids = prepared_conversation(request, model).generation.prompt_ids
    return {"prompt": model.tokenizer.decode(ids)}
