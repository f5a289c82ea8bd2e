"""Tools and the choice among them, from the request to a `Conversation` and told again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from mrs.errors import InvalidValueError
from mrs.server.conversation.conversation import FunctionTool, ToolChoice, ToolMode
from mrs.server.errors import FieldTypeError, MissingFieldError, UnsupportedFieldError
from mrs.server.responses.schemas import FunctionToolField, NamespaceField, ResponsesRequest

_LONGEST_SHOWN = 60


def function_tools(request: ResponsesRequest) -> tuple[FunctionTool, ...]:
    """The functions of a request; the model knows those of a namespace by both names.

    Raises:
        MissingFieldError: one has no name.
        InvalidValueError: two have the same.
    """
    tools = tuple(_functions(request))
    seen: set[str] = set()
    for tool in tools:
        if tool.name in seen:
            raise InvalidValueError(
                f"Two tools are called {tool.name[:_LONGEST_SHOWN]!r}.", param="tools"
            )
        seen.add(tool.name)
    return tools


def namespaces(request: ResponsesRequest) -> dict[str, tuple[str, str]]:
    """Namespace and name of the functions that are in one, by what the model knows them as."""
    return {
        full_name(group.name, tool.name or ""): (group.name, tool.name or "")
        for group in request.tools or ()
        if isinstance(group, NamespaceField)
        for tool in group.tools
    }


def full_name(namespace: str | None, name: str) -> str:
    """What the model knows a function as."""
    return f"{namespace}.{name}" if namespace else name


def tools_told(request: ResponsesRequest) -> list[dict[str, Any]]:
    """The functions as the response tells them again, flat."""
    told: list[dict[str, Any]] = []
    for tool in request.tools or ():
        if isinstance(tool, FunctionToolField):
            told.append(_told(tool))
        else:
            names = {"type": tool.type, "name": tool.name, "description": tool.description}
            told.append({**names, "tools": [_told(inner) for inner in tool.tools]})
    return told


def _told(tool: FunctionToolField) -> dict[str, Any]:
    given = tool.function or tool
    return {
        "type": "function",
        "name": given.name,
        "description": given.description,
        "parameters": given.parameters,
        "strict": bool(given.strict),
    }


def _functions(request: ResponsesRequest) -> Iterator[FunctionTool]:
    for index, tool in enumerate(request.tools or ()):
        if isinstance(tool, FunctionToolField):
            yield _function(tool, f"tools[{index}]")
            continue
        for inner, one in enumerate(tool.tools):
            function = _function(one, f"tools[{index}].tools[{inner}]")
            yield replace(function, name=full_name(tool.name, function.name))


def tool_choice(request: ResponsesRequest, tools: Sequence[FunctionTool]) -> ToolChoice:
    """Which functions may and must be called.

    Raises:
        RequestError: the choice is of an unknown form, or names what is no tool of the request.
    """
    choice = request.tool_choice
    if choice is None:
        return ToolChoice()
    if isinstance(choice, str):
        found = ToolChoice(_mode(choice, "tool_choice"))
    elif choice.get("type") == "allowed_tools":
        found = _allowed(choice)
    else:
        found = ToolChoice(ToolMode.REQUIRED, frozenset({_name(choice, "tool_choice")}))
    _require_known(found, tools)
    return found


def tool_choice_told(request: ResponsesRequest, choice: ToolChoice) -> str | dict[str, Any]:
    """The choice as the response tells it again."""
    if isinstance(request.tool_choice, dict):
        names = sorted(choice.names or ())
        if request.tool_choice.get("type") != "allowed_tools":
            return {"type": "function", "name": names[0]}
        tools = [{"type": "function", "name": name} for name in names]
        return {"type": "allowed_tools", "mode": choice.mode.value, "tools": tools}
    return choice.mode.value


def _function(tool: FunctionToolField, path: str) -> FunctionTool:
    given = tool.function or tool
    if given.name is None:
        param = f"{path}.name"
        raise MissingFieldError(f"The field '{param}' is required.", param=param)
    return FunctionTool(given.name, given.description, given.parameters, bool(given.strict))


def _mode(value: Any, param: str) -> ToolMode:
    if value not in tuple(ToolMode):
        raise InvalidValueError(
            f"'{param}' is {str(value)[:_LONGEST_SHOWN]!r}, not none, auto or required.",
            param=param,
        )
    return ToolMode(value)


def _allowed(choice: dict[str, Any]) -> ToolChoice:
    tools = choice.get("tools")
    if not isinstance(tools, list) or not tools:
        param = "tool_choice.tools"
        raise FieldTypeError(f"'{param}' should be an array of at least one tool.", param=param)
    names = frozenset(_name(tool, f"tool_choice.tools[{i}]") for i, tool in enumerate(tools))
    mode = _mode(choice.get("mode", "auto"), "tool_choice.mode")
    return ToolChoice(mode, names)


def _name(choice: Any, param: str) -> str:
    kind = choice.get("type", "function") if isinstance(choice, dict) else None
    if not isinstance(kind, str):
        raise FieldTypeError(f"'{param}' should be an object with a type.", param=param)
    if kind != "function":
        raise UnsupportedFieldError(
            f"'{param}': tools of type {kind[:_LONGEST_SHOWN]!r} are not supported; functions are.",
            param=param,
        )
    nested = choice.get("function")
    given = nested if isinstance(nested, dict) else choice
    name, namespace = given.get("name"), given.get("namespace")
    if not isinstance(name, str) or not name:
        raise MissingFieldError(f"The field '{param}.name' is required.", param=f"{param}.name")
    return full_name(namespace if isinstance(namespace, str) else None, name)


def _require_known(choice: ToolChoice, tools: Sequence[FunctionTool]) -> None:
    unknown = sorted((choice.names or frozenset()) - {tool.name for tool in tools})
    if unknown:
        raise InvalidValueError(
            f"'tool_choice' names {unknown[0][:_LONGEST_SHOWN]!r}, which is not among the tools.",
            param="tool_choice",
        )
    if choice.mode is ToolMode.REQUIRED and not tools:
        raise InvalidValueError(
            "'tool_choice' requires a call, and there are no tools.",
            hint="Send 'tools', or leave 'tool_choice' out.",
            param="tool_choice",
        )
