"""Whether the tools of a request can be tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mrs.errors import InvalidValueError
from mrs.server.conversation.conversation import FunctionTool

MAX_SCHEMA_DEPTH = 64
NAME_MARKS = "_-.:/"
_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_LONGEST_SHOWN = 100
_KINDS: Mapping[type, str] = {list: "an array", dict: "an object", str: "a string"}
_FAULTS = ("unterminated", "missing )", "unbalanced", "nothing to repeat", "bad escape (end")
# Keywords by what they hold.
_SCHEMAS = ("items", "additionalProperties", "not", "if", "then", "else", "contains")
_SCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMA_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


def usual_path(index: int) -> str:
    """Where a tool stands in most requests."""
    return f"tools[{index}]"


def check_tools(tools: Sequence[FunctionTool], path: Callable[[int], str] = usual_path) -> None:
    """Check names and schemas.

    Args:
        tools: of a request.
        path: tells where in the request a tool stands, by its index.

    Raises:
        InvalidValueError: two have one name, or a schema is none; the tool is named.
    """
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        _check_name(tool.name, f"{path(index)}.name")
        if tool.name in seen:
            raise InvalidValueError(
                f"Two tools are called {tool.name[:_LONGEST_SHOWN]!r}.",
                param=f"{path(index)}.name",
            )
        seen.add(tool.name)
        if tool.parameters is not None:
            _SchemaCheck(tool.name).check_root(tool.parameters, f"{path(index)}.parameters")


def _check_name(name: str, param: str) -> None:
    """Forms of calls end a name at brackets, quotes and spaces."""
    if not name or not all(letter.isalnum() or letter in NAME_MARKS for letter in name):
        raise InvalidValueError(
            f"A tool is called {name[:_LONGEST_SHOWN]!r}.",
            hint=f"Names consist of letters, digits and the characters {' '.join(NAME_MARKS)}",
            param=param,
        )


class _SchemaCheck:
    def __init__(self, tool: str) -> None:
        self._tool = tool

    def check_root(self, schema: Mapping[str, Any], path: str) -> None:
        if schema.get("type", "object") != "object":
            raise self._error(path + ".type", "arguments are an object")
        self._check(schema, path, 0)

    def _check(self, schema: Any, path: str, depth: int) -> None:
        if isinstance(schema, bool):
            return
        if not isinstance(schema, Mapping):
            raise self._error(path, "a schema is an object, true or false")
        if depth > MAX_SCHEMA_DEPTH:
            raise self._error(path, f"it is nested more than {MAX_SCHEMA_DEPTH} levels deep")
        self._check_type(schema, path)
        self._check_lists_of_names(schema, path)
        self._check_pattern(schema, path)
        for keyword in _SCHEMAS:
            if keyword in schema:
                self._check(schema[keyword], f"{path}.{keyword}", depth + 1)
        for keyword in _SCHEMA_LISTS:
            for index, one in enumerate(self._held(schema, path, keyword, list)):
                self._check(one, f"{path}.{keyword}[{index}]", depth + 1)
        for keyword in _SCHEMA_MAPS:
            for name, one in self._held(schema, path, keyword, dict).items():
                self._check(one, f"{path}.{keyword}.{name[:_LONGEST_SHOWN]}", depth + 1)

    def _check_type(self, schema: Mapping[str, Any], path: str) -> None:
        kinds = schema.get("type", [])
        for kind in kinds if isinstance(kinds, list) else [kinds]:
            if not isinstance(kind, str) or kind not in _TYPES:
                shown = repr(kind)[:_LONGEST_SHOWN]
                raise self._error(f"{path}.type", f"there is no JSON type {shown}")

    def _check_lists_of_names(self, schema: Mapping[str, Any], path: str) -> None:
        if not all(isinstance(name, str) for name in self._held(schema, path, "required", list)):
            raise self._error(f"{path}.required", "it is a list of names")
        if "enum" in schema and not self._held(schema, path, "enum", list):
            raise self._error(f"{path}.enum", "it lists no value")

    def _check_pattern(self, schema: Mapping[str, Any], path: str) -> None:
        if "pattern" not in schema:
            return
        pattern = self._held(schema, path, "pattern", str)
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            # Python's syntax is not that of JSON schemas: only what is wrong in all of them counts.
            if str(error).startswith(_FAULTS):
                raise self._error(f"{path}.pattern", str(error)) from error

    def _held(self, schema: Mapping[str, Any], path: str, keyword: str, kind: type) -> Any:
        value = schema.get(keyword, kind())
        if not isinstance(value, kind):
            raise self._error(f"{path}.{keyword}", f"it should be {_KINDS[kind]}")
        return value

    def _error(self, path: str, reason: str) -> InvalidValueError:
        return InvalidValueError(
            f"The parameters of the tool {self._tool[:_LONGEST_SHOWN]!r} are no JSON schema: "
            f"'{path}': {reason}.",
            param=path,
        )
