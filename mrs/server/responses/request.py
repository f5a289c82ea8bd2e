"""The body of a request to a checked `ResponsesRequest`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mrs.errors import InvalidValueError
from mrs.server.errors import MissingFieldError
from mrs.server.openai.unsupported import refuse_unsupported
from mrs.server.responses.schemas import ResponsesRequest
from mrs.server.validation import parse_request


def _one_of(*values: Any) -> Callable[[Any], bool]:
    # By type as well: in Python, 0 == False and 1 == True.
    return lambda value: any(type(value) is type(one) and value == one for one in values)


# OpenAI's, then those that mistral.rs adds.
UNSUPPORTED_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "context_management": _one_of([]),
    "conversation": _one_of(),
    "moderation": _one_of(),
    "prompt": _one_of(),
    "adapter": _one_of(),
    "agent_permission": _one_of(),
    "chat_template_kwargs": _one_of({}),
    "code_execution_permission": _one_of(),
    "enable_shell": _one_of(False),
    "files": _one_of([]),
    "max_tool_rounds": _one_of(),
    "session_id": _one_of(),
    "truncate_sequence": _one_of(False),
    "web_search_options": _one_of(),
}
UNSUPPORTED_REASONING_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "context": _one_of("auto"),
    "mode": _one_of("standard"),
}
UNSUPPORTED_TEXT_FIELDS: Mapping[str, Callable[[Any], bool]] = {"verbosity": _one_of("medium")}


def parse_responses_request(body: bytes) -> ResponsesRequest:
    """Parse a body and check everything that needs neither the store nor a model.

    Raises:
        RequestError: the request cannot be honoured; the class and the sentence tell why.
    """
    request = parse_request(ResponsesRequest, body)
    refuse_unsupported(request.model_extra or {}, UNSUPPORTED_FIELDS)
    if request.reasoning is not None:
        extra = request.reasoning.model_extra or {}
        refuse_unsupported(extra, UNSUPPORTED_REASONING_FIELDS, "reasoning.")
    if request.text is not None:
        refuse_unsupported(request.text.model_extra or {}, UNSUPPORTED_TEXT_FIELDS, "text.")
    _check_limits(request)
    _check_fields(request)
    return request


def _check_limits(request: ResponsesRequest) -> None:
    names = ("max_output_tokens", "max_completion_tokens", "max_tokens")
    given = {name: getattr(request, name) for name in names if getattr(request, name) is not None}
    if len(set(given.values())) > 1:
        told = " and ".join(f"'{name}' is {value}" for name, value in given.items())
        raise InvalidValueError(
            f"{told}: they name one limit.", hint="Send one of them.", param=next(iter(given))
        )


def _check_fields(request: ResponsesRequest) -> None:
    if request.input is None and request.previous_response_id is None:
        raise MissingFieldError("The field 'input' is required.", param="input")
    if request.background and not request.keeps:
        raise InvalidValueError(
            "'background' needs 'store': true, since the response is fetched later.",
            hint="Leave 'store' out, or 'background'.",
            param="background",
        )
    _check_thinking(request)


def _check_thinking(request: ResponsesRequest) -> None:
    effort = request.reasoning and request.reasoning.effort
    if not effort or request.enable_thinking is None:
        return
    if (effort in ("off", "none")) is request.enable_thinking:
        raise InvalidValueError(
            f"'reasoning.effort' is {effort!r} and 'enable_thinking' is "
            f"{str(request.enable_thinking).lower()}: they contradict each other.",
            hint="Send one of them.",
            param="enable_thinking",
        )
