"""A conversation to what the engine is asked for, and to who reads its answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from mrs.errors import InvalidValueError
from mrs.runtime.generation import GenerationRequest, ReasoningBudget
from mrs.server.conversation.answer_grammar import answer_grammar
from mrs.server.conversation.answer_reader import AnswerReader, ParsingReader
from mrs.server.conversation.answer_syntax import AnswerSyntax, TaggedAnswers
from mrs.server.conversation.call_ids import new_call_id, new_short_call_id
from mrs.server.conversation.chat_format import ChatFormat, chat_format
from mrs.server.conversation.conversation import (
    AnswerOptions,
    Conversation,
    FunctionTool,
    TemplateMessage,
    ToolMode,
)
from mrs.server.conversation.event_sink import EventSink
from mrs.server.conversation.template_messages import fitted_messages, tool_definitions
from mrs.server.conversation.template_variables import template_variables, with_reasoning_names
from mrs.server.conversation.tool_checks import check_tools
from mrs.server.conversation.tool_formats.harmony import HarmonyAnswers
from mrs.server.served_model import ServedModel

# Of the prompt's end: where reasoning has begun, its mark is among so many tokens.
_TAIL_TOKENS = 16


@dataclass(frozen=True)
class PreparedConversation:
    """Ready for the engine.

    Attributes:
        generation: what to ask of it.
        new_reader: makes the reader of one choice.
    """

    generation: GenerationRequest
    new_reader: Callable[[], AnswerReader]


def prepare(
    conversation: Conversation, options: AnswerOptions, model: ServedModel
) -> PreparedConversation:
    """Render and tokenize a conversation.

    Raises:
        ChatTemplateError: the template refuses the messages.
        RequestError: something in it cannot be honoured.
    """
    check_tools(conversation.tools)
    form = chat_format(model)
    tools = _callable_tools(conversation)
    prompt_ids, in_reasoning = _prompt(conversation, tools, form, model)
    if not prompt_ids:
        raise InvalidValueError("The messages make an empty prompt.", param="messages")
    grammar = answer_grammar(
        conversation,
        tools,
        form,
        model.tokenizer.special_tokens,
        in_reasoning=in_reasoning,
        may_think=_may_think(conversation, form),
    )
    hidden_stops = _hidden_stops(conversation, tools, form) if grammar is None else ()
    sampling = replace(
        options.sampling,
        grammar=grammar,
        stop=(*options.sampling.stop, *hidden_stops),
        reasoning_budget=_reasoning_budget(options, form, model, in_reasoning=in_reasoning),
    )
    generation = GenerationRequest(
        prompt_ids,
        sampling,
        options.n,
        cache_salt=options.cache_salt,
        truncate=options.truncate,
        continues=conversation.continue_final,
    )
    return PreparedConversation(
        generation, _reader_factory(conversation, tools, form, in_reasoning, hidden_stops)
    )


def _callable_tools(conversation: Conversation) -> tuple[FunctionTool, ...]:
    """The tools that may be called: the model is shown no others."""
    choice = conversation.tool_choice
    if choice.mode is ToolMode.NONE:
        return ()
    return tuple(
        tool for tool in conversation.tools if choice.names is None or tool.name in choice.names
    )


def _prompt(
    conversation: Conversation,
    tools: tuple[FunctionTool, ...],
    form: ChatFormat,
    model: ServedModel,
) -> tuple[tuple[int, ...], bool]:
    """The prompt, and whether it ends within reasoning."""
    messages = [with_reasoning_names(message, form) for message in conversation.messages]
    variables = template_variables(conversation, form)
    if tools or any(_is_about_tools(message) for message in messages):
        messages = fitted_messages(messages, tools, form.tools, form.traits)
        if tools and form.traits.shows_tools:
            variables["tools"] = tool_definitions(tools)
    if conversation.continue_final:
        prompt_ids = model.prompts.encode_chat(messages, continue_final=True, **variables)
        return prompt_ids, _is_open(form, str(messages[-1].get("content") or ""))
    prompt_ids = model.prompts.encode_chat(messages, **variables)
    tail = b"".join(map(model.token_bytes, prompt_ids[-_TAIL_TOKENS:])).decode("utf-8", "replace")
    in_reasoning = form.reasoning is not None and tail.rstrip().endswith(form.reasoning.opens)
    if prompt_ids and conversation.thinking is False:
        ending = _closed_reasoning(form, in_reasoning=in_reasoning)
        return prompt_ids + tuple(model.tokenizer.encode(ending)), False
    return prompt_ids, in_reasoning


def _is_about_tools(message: TemplateMessage) -> bool:
    return message["role"] == "tool" or bool(message.get("tool_calls"))


def _is_open(form: ChatFormat, text: str) -> bool:
    """Whether an answer that is to go on is within its reasoning."""
    marks = form.reasoning
    return marks is not None and text.rfind(marks.opens) > text.rfind(marks.closes)


def _closed_reasoning(form: ChatFormat, *, in_reasoning: bool) -> str:
    """What makes a model skip its reasoning, where its template has no switch for that."""
    marks = form.reasoning
    if marks is None:
        return ""
    if in_reasoning:
        return f"\n{marks.closes}\n\n"
    return "" if form.switches_thinking else f"{marks.opens}\n\n{marks.closes}\n\n"


def _may_think(conversation: Conversation, form: ChatFormat) -> bool:
    """Whether the model may begin to reason by itself."""
    if conversation.continue_final:
        return False
    return form.has_channels or (form.reasoning is not None and conversation.thinking is not False)


def _reasoning_budget(
    options: AnswerOptions, form: ChatFormat, model: ServedModel, *, in_reasoning: bool
) -> ReasoningBudget | None:
    """What ends the reasoning in time; None where nobody asks, or no pair of marks is known."""
    marks, tokens = form.reasoning, options.reasoning_budget
    if marks is None or tokens is None:
        return None
    closing_ids = tuple(model.tokenizer.encode(marks.closes))
    return ReasoningBudget(tokens, in_reasoning, marks.opens, marks.closes, closing_ids)


def _hidden_stops(
    conversation: Conversation, tools: tuple[FunctionTool, ...], form: ChatFormat
) -> tuple[str, ...]:
    """What ends an answer with the first call, where there may be one alone."""
    return () if conversation.parallel_tool_calls or not tools else form.tools.ends


def _reader_factory(
    conversation: Conversation,
    tools: tuple[FunctionTool, ...],
    form: ChatFormat,
    in_reasoning: bool,
    hidden_stops: tuple[str, ...],
) -> Callable[[], AnswerReader]:
    if not (tools or form.reasoning or form.has_channels):
        return AnswerReader
    # Where a grammar decides what may follow a mark, what looks like a call without one is text.
    is_forced = conversation.response_format is not None or any(tool.strict for tool in tools)
    syntax: AnswerSyntax = TaggedAnswers(
        form.reasoning,
        in_reasoning,
        form.tools if tools else None,
        marked_only=is_forced and form.tools.opens_with_mark,
    )
    if form.has_channels:
        syntax = HarmonyAnswers()
    by_name = {tool.name: tool for tool in tools}
    new_id = new_short_call_id if form.tools.short_ids else new_call_id

    def new_reader() -> AnswerReader:
        sink = EventSink(by_name, new_id, parallel=conversation.parallel_tool_calls)
        return ParsingReader(syntax, sink, frozenset(hidden_stops))

    return new_reader
