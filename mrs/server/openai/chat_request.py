"""The body of a chat completion request to a conversation."""

from __future__ import annotations

from functools import partial
from typing import Any

from mrs.errors import InvalidValueError
from mrs.server.conversation.chat_format import chat_format
from mrs.server.conversation.conversation import AnswerOptions, Conversation
from mrs.server.conversation.prepare import PreparedConversation, prepare
from mrs.server.conversation.tool_checks import check_tools
from mrs.server.openai.grammar_fields import asked_grammar
from mrs.server.openai.messages import template_messages
from mrs.server.openai.sampling import chat_sampling_params
from mrs.server.openai.schemas import ChatCompletionRequest
from mrs.server.openai.thinking import other_variables, reasoning_budget, thinking
from mrs.server.openai.tools import requested_choice, requested_tools, tool_path
from mrs.server.openai.unsupported import UNSUPPORTED_FIELDS, refuse_unsupported
from mrs.server.served_model import ServedModel
from mrs.server.validation import parse_request


def parse_chat_request(body: bytes) -> ChatCompletionRequest:
    """Parse a body and check everything that needs no model.

    Raises:
        RequestError: the request cannot be honoured; the class and the sentence tell why.
    """
    request = parse_request(ChatCompletionRequest, body)
    refuse_unsupported(request.model_extra or {}, UNSUPPORTED_FIELDS)
    _check_limits(request)
    return request


def prepared_conversation(
    request: ChatCompletionRequest, model: ServedModel
) -> PreparedConversation:
    """Render and tokenize the conversation of a checked request.

    Raises:
        ChatTemplateError: the template refuses the messages.
        RequestError: a message, or the prompt as a whole, cannot be honoured.
    """
    options = AnswerOptions(
        chat_sampling_params(request, model),
        request.n or 1,
        cache_salt=request.cache_salt or "",
        truncate=bool(request.truncate_sequence),
        reasoning_budget=reasoning_budget(request.thinking_token_budget, model),
    )
    return prepare(_conversation(request, model), options, model)


def _conversation(request: ChatCompletionRequest, model: ServedModel) -> Conversation:
    tools = requested_tools(request)
    check_tools(tools, partial(tool_path, request))
    enabled, effort = thinking(request)
    return Conversation(
        messages=tuple(template_messages(request.messages)),
        tools=tools,
        tool_choice=requested_choice(request, tools),
        # The older form of calls can tell of one alone.
        parallel_tool_calls=request.parallel_tool_calls is not False and not request.functions,
        response_format=asked_grammar(request.grammar, request.response_format, request.guided()),
        thinking=enabled,
        reasoning_effort=effort,
        template_variables=other_variables(request) | _verbosity(request, model),
        continue_final=_continues(request),
    )


def _verbosity(request: ChatCompletionRequest, model: ServedModel) -> dict[str, str]:
    if request.verbosity in (None, "medium"):
        return {}
    if "verbosity" not in chat_format(model).variables:
        raise InvalidValueError(
            f"'verbosity' is {request.verbosity!r}, and the model's chat template knows none.",
            hint="Leave it out, and ask for short or long answers in the messages.",
            param="verbosity",
        )
    return {"verbosity": request.verbosity or ""}


def _continues(request: ChatCompletionRequest) -> bool:
    *earlier, last = request.messages
    for index, message in enumerate(earlier):
        if message.prefix:
            raise _not_continued(f"messages[{index}].prefix", "is not in the last message")
    asked = "continue_final_message" if request.continue_final_message else None
    if last.prefix:
        asked = f"messages[{len(earlier)}].prefix"
    _check_generation_prompt((request.model_extra or {}).get("add_generation_prompt"), asked)
    if asked is None:
        return False
    if last.role != "assistant":
        raise _not_continued(asked, f"asks to go on from a message of the {last.role}")
    if last.tool_calls or last.function_call:
        raise _not_continued(asked, "asks to go on from a message with calls")
    return True


def _check_generation_prompt(added: Any, asked: str | None) -> None:
    """Check vLLM's switch: an answer begins a message, or goes on from one."""
    if added is True and asked is not None:
        fault = f"and '{asked}' cannot both be true"
    elif added is False and asked is None:
        fault = "cannot be false: a prompt ends where the answer begins"
    else:
        return
    raise InvalidValueError(
        f"'add_generation_prompt' {fault}.", hint="Leave it out.", param="add_generation_prompt"
    )


def _not_continued(param: str, fault: str) -> InvalidValueError:
    return InvalidValueError(
        f"'{param}' {fault}.",
        hint="An answer can go on from a last message that is the assistant's.",
        param=param,
    )


def _check_limits(request: ChatCompletionRequest) -> None:
    if request.top_logprobs and not request.logprobs:
        raise InvalidValueError(
            "'top_logprobs' needs 'logprobs': true.",
            hint="Send both, or neither.",
            param="top_logprobs",
        )
    new, old = request.max_completion_tokens, request.max_tokens
    if new is not None and old is not None and new != old:
        raise InvalidValueError(
            f"'max_completion_tokens' is {new} and 'max_tokens' is {old}: they name one limit.",
            hint="Send one of them.",
            param="max_completion_tokens",
        )
