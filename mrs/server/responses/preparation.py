"""A checked request and what it refers to, made ready for the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mrs.errors import InvalidValueError
from mrs.runtime.generation import GenerationRequest
from mrs.server.conversation.conversation import AnswerOptions, Conversation, TemplateMessage
from mrs.server.conversation.prepare import PreparedConversation, prepare
from mrs.server.openai.sampling import sampling_params
from mrs.server.openai.thinking import reasoning_budget
from mrs.server.responses.answer import AnswerForm
from mrs.server.responses.database import KnownItem
from mrs.server.responses.items import Item, input_items
from mrs.server.responses.resource import Resource, new_resource
from mrs.server.responses.schemas import ResponsesRequest
from mrs.server.responses.template_messages import template_messages, without_oldest
from mrs.server.responses.text_format import response_grammar
from mrs.server.responses.tools import function_tools, namespaces, tool_choice
from mrs.server.served_model import ServedModel


@dataclass(frozen=True)
class Turn:
    """A request with what is stored of the conversation before it.

    Attributes:
        request: checked.
        context: items of the conversation before, in order.
        known: items that the request may refer to, by id.
    """

    request: ResponsesRequest
    context: Sequence[KnownItem] = ()
    known: Mapping[str, Item] = field(default_factory=dict)


@dataclass(frozen=True)
class PreparedResponse:
    """Ready for the engine.

    Attributes:
        generation: what to ask of it.
        resource: the response that has only begun.
        form: what its answer looks like.
        inputs: items of this turn.
    """

    generation: GenerationRequest
    resource: Resource
    form: AnswerForm
    inputs: list[Item]


def prepare_response(turn: Turn, model: ServedModel) -> PreparedResponse:
    """Render and tokenize the conversation.

    Raises:
        ChatTemplateError: the template refuses the messages.
        RequestError: something in it cannot be honoured.
    """
    request = turn.request
    inputs = input_items(request, turn.known)
    items = [*(known.item for known in turn.context), *inputs]
    messages = template_messages(items, request.instructions)
    if not items:
        raise InvalidValueError("'input' holds nothing to answer.", param="input")
    conversation = _conversation(request, tuple(messages))
    prepared = _prepare(conversation, _options(request, model), model)
    sampling = prepared.generation.sampling
    resource = new_resource(request, model.name, sampling, conversation.tool_choice)
    form = AnswerForm(
        prepared.new_reader(),
        model.token_bytes,
        namespaces(request),
        sealed_reasoning=request.wants_encrypted_reasoning,
        obfuscate=bool(request.stream_options and request.stream_options.include_obfuscation),
    )
    return PreparedResponse(prepared.generation, resource, form, inputs)


def _conversation(request: ResponsesRequest, messages: tuple[TemplateMessage, ...]) -> Conversation:
    tools = function_tools(request)
    thinking, effort = _thinking(request)
    return Conversation(
        messages,
        tools,
        tool_choice(request, tools),
        parallel_tool_calls=request.parallel_tool_calls is not False,
        response_format=response_grammar(request),
        thinking=thinking,
        reasoning_effort=effort,
    )


def _thinking(request: ResponsesRequest) -> tuple[bool | None, str | None]:
    effort = request.reasoning and request.reasoning.effort
    if not effort:
        return request.enable_thinking, None
    if effort in ("off", "none"):
        return False, "none"
    return True, "xhigh" if effort == "max" else effort


def _options(request: ResponsesRequest, model: ServedModel) -> AnswerOptions:
    logprobs = (request.top_logprobs or 0) if request.wants_logprobs else None
    sampling = sampling_params(request, model, max_tokens=request.output_limit, logprobs=logprobs)
    return AnswerOptions(
        sampling,
        cache_salt=request.cache_salt or "",
        truncate=request.truncation == "auto",
        reasoning_budget=reasoning_budget(request.thinking_token_budget, model),
    )


def _prepare(
    conversation: Conversation, options: AnswerOptions, model: ServedModel
) -> PreparedConversation:
    """With truncation, leave out as few of the oldest turns as makes the rest fit.

    Where the newest turn alone is too long, the engine cuts its beginning.
    """
    whole = prepare(conversation, options, model)
    room = model.max_model_len - (options.sampling.max_tokens or 1)
    if not options.truncate or len(whole.generation.prompt_ids) <= room:
        return whole
    fits = None
    turns = sum(message["role"] == "user" for message in conversation.messages)
    least, most = 1, turns - 1
    while least <= most:
        middle = (least + most) // 2
        messages = without_oldest(conversation.messages, middle)
        assert messages is not None
        tried = prepare(replace(conversation, messages=tuple(messages)), options, model)
        if len(tried.generation.prompt_ids) <= room:
            fits, most = tried, middle - 1
        else:
            whole, least = tried, middle + 1
    return fits or whole
