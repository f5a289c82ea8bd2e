"""What answers must match, where a conversation asks for it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from mrs.errors import InvalidValueError
from mrs.runtime.generation import Grammar, GrammarKind
from mrs.server.conversation.chat_format import ChatFormat
from mrs.server.conversation.conversation import Conversation, FunctionTool, ToolMode
from mrs.server.conversation.lark import ANY_TEXT, LarkBuilder
from mrs.server.conversation.tool_formats.harmony import CHANNEL, MESSAGE, START
from mrs.server.conversation.tool_formats.members import is_text, members

_SPACE = r"/[ \t\r\n]{0,8}/"


def answer_grammar(
    conversation: Conversation,
    tools: Sequence[FunctionTool],
    form: ChatFormat,
    special_tokens: Mapping[str, int],
    *,
    in_reasoning: bool,
    may_think: bool,
) -> Grammar | None:
    """The grammar of a whole answer, reasoning included; None if anything may be said.

    Args:
        conversation: with what is asked for.
        tools: those that may be called.
        form: of the answers.
        special_tokens: the model's control tokens.
        in_reasoning: the prompt has begun the reasoning.
        may_think: the model may begin it.

    Raises:
        InvalidValueError: the format of the text cannot be joined with reasoning or calls.
    """
    lark = LarkBuilder(special_tokens)
    wanted = conversation.response_format
    if tools and conversation.tool_choice.mode is ToolMode.REQUIRED:
        body = _calls(conversation, tools, form, lark)
    elif tools and wanted is not None:
        body = f"({_calls(conversation, tools, form, lark)} | {_text(wanted, form, lark)})"
    elif any(tool.strict for tool in tools):
        body = _text_and_calls(conversation, tools, form, lark)
    elif wanted is None or not (in_reasoning or may_think or form.has_channels):
        return wanted
    else:
        body = _text(wanted, form, lark)
    reasoning = _reasoning(form, lark, in_reasoning=in_reasoning, may_think=may_think)
    return lark.grammar(f"{reasoning} {body}")


def _calls(
    conversation: Conversation, tools: Sequence[FunctionTool], form: ChatFormat, lark: LarkBuilder
) -> str:
    # A choice that names one tool means one call, as OpenAI has it.
    is_named = len(conversation.tool_choice.names or ()) == 1
    parallel = conversation.parallel_tool_calls and not is_named
    return form.tools.calls_grammar(tools, lark, parallel=parallel)


def _text_and_calls(
    conversation: Conversation, tools: Sequence[FunctionTool], form: ChatFormat, lark: LarkBuilder
) -> str:
    """Text in which a call, where one begins, matches its schema.

    Of tools that are not strict, any arguments are allowed.
    """
    tools = [tool if tool.strict else _loose(tool) for tool in tools]
    if form.has_channels:
        calls = _calls(conversation, tools, form, lark)
        return f"({calls} | {lark.literal(f'{CHANNEL}final{MESSAGE}')} {lark.rule(ANY_TEXT)})"
    written = form.tools
    if not written.opens_with_mark:
        calls = _calls(conversation, tools, form, lark)
        return f"({calls} | {lark.terminal(written.no_call(tools))})"
    parallel = conversation.parallel_tool_calls
    calls = written.calls_grammar(tools, lark, parallel=parallel, after_marker=True)
    block = lark.rule(f"{lark.text_up_to(written.begins[0])} {calls}")
    return f"{block}{'*' if parallel else '?'} {lark.rule(ANY_TEXT)}"


def _loose(tool: FunctionTool) -> FunctionTool:
    """The tool with arguments of the same names, that may be anything and may be left out."""
    properties = {
        member.name: {"type": "string"} if is_text(tool.parameters or {}, member.name) else {}
        for member in members(tool)
    }
    anything = {"type": "object", "properties": properties, "additionalProperties": True}
    return FunctionTool(tool.name, parameters=anything)


def _text(wanted: Grammar, form: ChatFormat, lark: LarkBuilder) -> str:
    """What matches the text that is asked for, as a part of a larger grammar."""
    channel = lark.literal(f"{CHANNEL}final{MESSAGE}") + " " if form.has_channels else ""
    if wanted.kind is GrammarKind.JSON_SCHEMA:
        try:
            schema = json.loads(wanted.source)
        except ValueError as error:
            raise InvalidValueError(f"The JSON schema is no JSON: {error}.") from error
        return channel + lark.json(schema)
    if wanted.kind is GrammarKind.REGEX:
        return channel + lark.rule(f"/{_with_escaped_slashes(wanted.source)}/")
    return channel + lark.include(wanted)


def _reasoning(form: ChatFormat, lark: LarkBuilder, *, in_reasoning: bool, may_think: bool) -> str:
    """What matches the reasoning before the rest, and the white space behind it."""
    if form.has_channels:
        if not may_think:
            return ""
        head = lark.literal(f"{CHANNEL}analysis{MESSAGE}")
        tail = lark.literal(f"{START}assistant")
        return f"({head} {lark.text_up_to('<|end|>')} {tail})*"
    marks = form.reasoning
    if marks is None or not (in_reasoning or may_think):
        return ""
    space = lark.rule(_SPACE)
    rest = f"{lark.text_up_to(marks.closes)} {space}"
    return rest if in_reasoning else f"({lark.literal(marks.opens)} {rest})?"


def _with_escaped_slashes(pattern: str) -> str:
    """A pattern without a slash that would end it."""
    result: list[str] = []
    escaped = False
    for character in pattern:
        result.append("\\/" if character == "/" and not escaped else character)
        escaped = character == "\\" and not escaped
    return "".join(result)
