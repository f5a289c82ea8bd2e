"""The tools of a chat completion request, and the choice among them, for a `Conversation`."""

from __future__ import annotations

from collections.abc import Sequence

from mrs.errors import InvalidValueError
from mrs.server.conversation.conversation import FunctionTool, ToolChoice, ToolMode
from mrs.server.openai.schemas import ChatCompletionRequest
from mrs.server.openai.tool_schemas import (
    AllowedTools,
    FunctionDefinition,
    NamedFunction,
    NamedTool,
    Tool,
)


def requested_tools(request: ChatCompletionRequest) -> tuple[FunctionTool, ...]:
    """The functions that the model may call.

    Raises:
        InvalidValueError: both forms are there.
    """
    if request.tools and request.functions:
        raise InvalidValueError(
            "'functions' is the older form of 'tools', and both are there.",
            hint="Send tools alone.",
            param="functions",
        )
    definitions = [tool.definition for tool in request.tools or ()] or request.functions or ()
    return tuple(map(_function_tool, definitions))


def requested_choice(request: ChatCompletionRequest, tools: Sequence[FunctionTool]) -> ToolChoice:
    """Whether the model calls, and what.

    Raises:
        InvalidValueError: it must call, and there is nothing of that name to call.
    """
    if request.tool_choice is not None:
        choice, param = _choice(request.tool_choice), "tool_choice"
    else:
        choice, param = _choice(request.function_call), "function_call"
    if choice.mode is ToolMode.REQUIRED and not tools:
        raise InvalidValueError(
            f"'{param}' asks for a call, and there are no tools.",
            hint="Send tools, or leave it out.",
            param=param,
        )
    unknown = sorted((choice.names or frozenset()) - {tool.name for tool in tools})
    if unknown:
        raise InvalidValueError(
            f"'{param}' names {unknown[0][:100]!r}, which is none of the tools.", param=param
        )
    return choice


def tool_path(request: ChatCompletionRequest, index: int) -> str:
    """Where in the request the function of a tool stands."""
    tools: Sequence[Tool] | None = request.tools
    if not tools:
        return f"functions[{index}]"
    return f"tools[{index}].function" if tools[index].function else f"tools[{index}]"


def _function_tool(definition: FunctionDefinition) -> FunctionTool:
    return FunctionTool(
        definition.name,
        definition.description,
        definition.parameters,
        strict=bool(definition.strict),
    )


def _choice(choice: str | NamedTool | AllowedTools | NamedFunction | None) -> ToolChoice:
    if choice is None:
        return ToolChoice()
    if isinstance(choice, str):
        return ToolChoice(ToolMode(choice))
    if isinstance(choice, NamedFunction):
        return ToolChoice(ToolMode.REQUIRED, frozenset({choice.name}))
    if isinstance(choice, NamedTool):
        return ToolChoice(ToolMode.REQUIRED, frozenset({choice.function_name}))
    body = choice.body
    names = frozenset(tool.function_name for tool in body.tools)
    return ToolChoice(ToolMode(body.mode), names)
