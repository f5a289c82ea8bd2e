"""The body of a messages request to a conversation, and to what the engine is asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from mrs.errors import ContextLengthExceededError, InvalidValueError
from mrs.runtime.generation import Grammar
from mrs.runtime.grammar import json_schema_grammar
from mrs.server.anthropic.schemas import CountTokensRequest, MessagesRequest
from mrs.server.anthropic.tools import function_tools, tool_choice
from mrs.server.anthropic.turns import template_messages
from mrs.server.anthropic.unsupported import UNSUPPORTED_FIELDS
from mrs.server.conversation.conversation import AnswerOptions, Conversation
from mrs.server.conversation.prepare import PreparedConversation, prepare
from mrs.server.openai.grammar_fields import asked_grammar
from mrs.server.openai.sampling import sampling_params
from mrs.server.openai.unsupported import refuse_unsupported
from mrs.server.served_model import ServedModel
from mrs.server.validation import parse_request

Request = TypeVar("Request", bound=CountTokensRequest)


@dataclass(frozen=True)
class PreparedMessage:
    """Ready for the engine.

    Attributes:
        conversation: what to ask of it, and who reads the answer.
        ends_at_context: the answer may reach the end of the context before ``max_tokens``.
    """

    conversation: PreparedConversation
    ends_at_context: bool


def parse(schema: type[Request], body: bytes) -> Request:
    """Parse a body and check everything that needs no tokenizer.

    Raises:
        RequestError: the request cannot be honoured; the class and the sentence tell why.
    """
    request = parse_request(schema, body)
    refuse_unsupported(request.model_extra or {}, UNSUPPORTED_FIELDS)
    return request


def conversation_of(request: CountTokensRequest) -> Conversation:
    """What the model is asked.

    Raises:
        InvalidValueError: parts of the request contradict each other.
    """
    tools = request.tools or []
    choice = request.tool_choice
    messages = template_messages(request.system, request.messages)
    return Conversation(
        messages,
        tools=function_tools(tools),
        tool_choice=tool_choice(choice, tools),
        parallel_tool_calls=not (choice and choice.disable_parallel_tool_use),
        response_format=_response_format(request),
        thinking=_thinking(request),
        reasoning_effort=_effort(request),
        continue_final=messages[-1]["role"] == "assistant",
    )


def count_tokens(request: CountTokensRequest, model: ServedModel) -> int:
    """How many tokens the prompt of a conversation has.

    Raises:
        RequestError: as for the request itself.
    """
    options = AnswerOptions(sampling_params(request, model, max_tokens=1))
    return len(prepare(conversation_of(request), options, model).generation.prompt_ids)


def prepare_message(request: MessagesRequest, model: ServedModel) -> PreparedMessage:
    """Render and tokenize the conversation of a checked request.

    ``max_tokens`` beyond the end of the context is no error: the answer then ends there.

    Raises:
        ChatTemplateError: the template refuses the messages.
        RequestError: a message, or the prompt as a whole, cannot be honoured.
    """
    _check_budget(request)
    stop = (*(request.stop_sequences or ()), *(request.stop or ()))
    sampling = sampling_params(request, model, max_tokens=request.max_tokens, stop=stop)
    options = AnswerOptions(
        sampling,
        cache_salt=request.cache_salt or "",
        truncate=bool(request.truncate_sequence),
        reasoning_budget=request.thinking.budget_tokens if request.thinking else None,
    )
    prepared = prepare(conversation_of(request), options, model)
    generation = prepared.generation
    room = model.max_model_len - len(generation.prompt_ids)
    if room >= request.max_tokens or options.truncate:
        return PreparedMessage(prepared, ends_at_context=False)
    if room < 1:
        raise ContextLengthExceededError(
            f"prompt is too long: {len(generation.prompt_ids)} tokens > "
            f"{model.max_model_len - 1} maximum",
            param="messages",
        )
    generation = replace(generation, sampling=replace(generation.sampling, max_tokens=room))
    return PreparedMessage(replace(prepared, generation=generation), ends_at_context=True)


def _check_budget(request: MessagesRequest) -> None:
    budget = request.thinking.budget_tokens if request.thinking else None
    if budget is not None and budget >= request.max_tokens:
        raise InvalidValueError(
            f"'max_tokens' is {request.max_tokens}; it must be greater than "
            f"'thinking.budget_tokens', which is {budget}.",
            param="max_tokens",
        )


def _thinking(request: CountTokensRequest) -> bool | None:
    """Whether to think; None leaves it to the model, as adaptive thinking does."""
    if request.thinking is not None:
        kind = request.thinking.type
        return None if kind == "adaptive" else kind == "enabled"
    if request.enable_thinking is None and _asked_effort(request):
        return None
    return bool(request.enable_thinking)


def _effort(request: CountTokensRequest) -> str | None:
    """How much to think, if at all: of a template, effort asks nothing else."""
    effort = None if _thinking(request) is False else _asked_effort(request)
    return "xhigh" if effort == "max" else effort


def _asked_effort(request: CountTokensRequest) -> str | None:
    config = request.output_config
    return (config.effort if config else None) or request.reasoning_effort


def _response_format(request: CountTokensRequest) -> Grammar | None:
    wanted = request.output_config.format if request.output_config else None
    wanted = wanted or request.output_format
    asked = asked_grammar(request.grammar, request.response_format)
    if wanted is None:
        return asked
    if asked is not None:
        raise InvalidValueError(
            "'output_config.format' is one of two fields that say what the text must match.",
            hint="Send one of them.",
            param="output_config.format",
        )
    return json_schema_grammar(wanted.json_schema)
