"""Tools of a request, and whether the model must call them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mrs.errors import InvalidValueError
from mrs.server.anthropic.schemas import Tool
from mrs.server.anthropic.schemas import ToolChoice as AnthropicChoice
from mrs.server.conversation.conversation import FunctionTool, ToolChoice, ToolMode

_MODES = {
    "auto": ToolMode.AUTO,
    "any": ToolMode.REQUIRED,
    "tool": ToolMode.REQUIRED,
    "none": ToolMode.NONE,
}


def function_tools(tools: Sequence[Tool]) -> tuple[FunctionTool, ...]:
    """Return the tools as conversations know them.

    Raises:
        InvalidValueError: two of them have one name.
    """
    names: set[str] = set()
    for index, tool in enumerate(tools):
        if tool.name in names:
            raise InvalidValueError(
                f"Two tools are called {tool.name!r}.", param=f"tools[{index}].name"
            )
        names.add(tool.name)
    return tuple(map(_function, tools))


def tool_choice(choice: AnthropicChoice | None, tools: Sequence[Tool]) -> ToolChoice:
    """Return which tools the model may or must call.

    Raises:
        InvalidValueError: it must call one that there is not.
    """
    if choice is None:
        return ToolChoice()
    mode = _MODES[choice.type]
    if mode is ToolMode.REQUIRED and not tools:
        raise InvalidValueError(
            f"'tool_choice' is {choice.type!r}, and there are no tools.",
            hint="Send tools, or leave tool_choice out.",
            param="tool_choice",
        )
    if choice.type != "tool":
        return ToolChoice(mode)
    if choice.name is None or choice.name not in {tool.name for tool in tools}:
        raise InvalidValueError(
            f"'tool_choice' names {choice.name!r}, which is none of the tools.",
            param="tool_choice.name",
        )
    return ToolChoice(mode, frozenset((choice.name,)))


def _function(tool: Tool) -> FunctionTool:
    return FunctionTool(tool.name, _description(tool), tool.input_schema, bool(tool.strict))


def _description(tool: Tool) -> str | None:
    """With the examples of its input: chat templates have no other place for them."""
    if not tool.input_examples:
        return tool.description
    examples = (json.dumps(example, ensure_ascii=False) for example in tool.input_examples)
    return "\n".join(filter(None, (tool.description, "Examples of its input:", *examples)))
