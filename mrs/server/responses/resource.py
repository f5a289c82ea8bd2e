"""The response object."""

from __future__ import annotations

import time
from typing import Any

from mrs.runtime.generation import SamplingParams
from mrs.server.conversation.conversation import ToolChoice
from mrs.server.errors import ErrorReply
from mrs.server.generation import Tally
from mrs.server.responses.items import new_id
from mrs.server.responses.schemas import ResponsesRequest
from mrs.server.responses.text_format import format_told
from mrs.server.responses.tools import tool_choice_told, tools_told

Resource = dict[str, Any]
_ERROR_CODES = {400: "invalid_prompt", 429: "rate_limit_exceeded"}


def new_resource(
    request: ResponsesRequest,
    model: str,
    sampling: SamplingParams,
    choice: ToolChoice,
) -> Resource:
    """A response that has only begun, with what was asked for and what was chosen where it was not.

    Args:
        request: checked.
        model: what answers it.
        sampling: how it is drawn.
        choice: which functions may be called.
    """
    resource: Resource = {
        "id": new_id("resp"),
        "object": "response",
        "created_at": int(time.time()),
        "completed_at": None,
        "status": "queued" if request.background else "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": model,
        "output": [],
        "output_text": "",
        "usage": None,
        "previous_response_id": request.previous_response_id,
        "instructions": request.instructions,
        "background": bool(request.background),
        "store": request.keeps,
        "metadata": request.metadata or {},
        "text": {"format": format_told(request)},
        "reasoning": _reasoning(request),
        "tools": tools_told(request),
        "tool_choice": tool_choice_told(request, choice),
        "parallel_tool_calls": request.parallel_tool_calls is not False,
        "max_tool_calls": request.max_tool_calls,
        "max_output_tokens": request.output_limit,
        "truncation": request.truncation or "disabled",
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "frequency_penalty": sampling.frequency_penalty,
        "presence_penalty": sampling.presence_penalty,
        "top_logprobs": request.top_logprobs or 0,
        "service_tier": "default",
        "safety_identifier": request.safety_identifier,
        "prompt_cache_key": request.prompt_cache_key,
    }
    return resource if request.user is None else {**resource, "user": request.user}


def response_usage(tally: Tally, reasoning_tokens: int) -> dict[str, Any]:
    """The token counts. What is kept of a prompt costs nothing: no token is written for a fee."""
    return {
        "input_tokens": tally.prompt_tokens,
        "input_tokens_details": {"cached_tokens": tally.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": tally.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning_tokens},
        "total_tokens": tally.prompt_tokens + tally.completion_tokens,
    }


def response_error(reply: ErrorReply) -> dict[str, Any]:
    """Why a response failed."""
    return {
        "type": reply.kind,
        "code": _ERROR_CODES.get(reply.status, "server_error"),
        "message": reply.message,
        "param": reply.param,
    }


def _reasoning(request: ResponsesRequest) -> dict[str, Any]:
    given = request.reasoning
    summary = given and (given.summary or given.generate_summary)
    return {
        "effort": given.effort if given else None,
        "summary": None if summary == "none" else summary,
    }
