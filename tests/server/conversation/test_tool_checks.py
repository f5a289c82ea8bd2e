from __future__ import annotations

from typing import Any

import pytest

from mrs.errors import InvalidValueError
from mrs.server.conversation.conversation import FunctionTool
from mrs.server.conversation.tool_checks import MAX_SCHEMA_DEPTH, check_tools


@pytest.mark.parametrize("name", ["get_weather", "mcp.server/tool-1", "ns:f", "天気", "f" * 64])
def test_names_that_calls_can_hold(name: str) -> None:
    check_tools([FunctionTool(name)])


@pytest.mark.parametrize("name", ["", "a b", "a>", "f(", 'a"', "a\n", "a{", "a[ARGS]"])
def test_names_that_they_cannot(name: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        check_tools([FunctionTool("good"), FunctionTool(name)])
    assert caught.value.param == "tools[1].name"


def test_a_name_is_unique() -> None:
    with pytest.raises(InvalidValueError, match="'f'"):
        check_tools([FunctionTool("f"), FunctionTool("f")])


@pytest.mark.parametrize(
    "parameters",
    [
        None,
        {},
        {"type": "object", "properties": {"a": True, "b": {}}, "required": []},
        {"properties": {"a": {"type": ["string", "null"]}, "b": {"enum": [None, 1]}}},
        {"$defs": {"x": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/x"}}},
        {"properties": {"a": {"anyOf": [{"type": "string"}, {"items": {"const": 1}}]}}},
    ],
    ids=str,
)
def test_schemas_that_are_some(parameters: Any) -> None:
    check_tools([FunctionTool("f", parameters=parameters)])


@pytest.mark.parametrize("pattern", ["[", "(", "a)", "*", "\\", 5])
def test_a_pattern_that_is_none_is_told_with_its_place(pattern: Any) -> None:
    with pytest.raises(InvalidValueError, match="'f'") as caught:
        check_tools([FunctionTool("f", parameters={"properties": {"a": {"pattern": pattern}}})])
    assert caught.value.param == "tools[0].parameters.properties.a.pattern"


@pytest.mark.parametrize("pattern", ["^[a-z]+$", r"\p{L}", "(?<year>[0-9]{4})", r"\d{3}"])
def test_patterns_of_other_dialects_pass(pattern: str) -> None:
    check_tools([FunctionTool("f", parameters={"properties": {"a": {"pattern": pattern}}})])


def test_the_depth_of_a_schema_has_a_bound() -> None:
    schema: dict[str, Any] = {}
    for _ in range(MAX_SCHEMA_DEPTH + 1):
        schema = {"items": schema}
    with pytest.raises(InvalidValueError, match="deep"):
        check_tools([FunctionTool("f", parameters={"properties": {"a": schema}})])
