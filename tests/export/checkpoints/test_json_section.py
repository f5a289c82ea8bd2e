from __future__ import annotations

import math
from typing import Any

import pytest

from mrs.errors import CheckpointError
from mrs.export.checkpoints.json_section import JsonSection


def section(**values: Any) -> JsonSection:
    return JsonSection("config.json", values)


WRONG: list[tuple[str, Any]] = [
    ("size", 0),
    ("size", -1),
    ("size", 1.5),
    ("size", True),
    ("size", "4"),
    ("size", 1 << 31),
    ("size", [4]),
    ("count", -1),
    ("count", math.inf),
    ("count", math.nan),
    ("number", math.inf),
    ("number", math.nan),
    ("number", "1e4"),
    ("number", False),
    ("number", 10**400),
    ("text", 5),
    ("text", "\ud800"),
    ("text", ["a"]),
    ("flag", 1),
    ("flag", "true"),
    ("sizes", 4),
    ("sizes", [4, 0]),
    ("sizes", [4, None]),
    ("counts", [0, -1]),
    ("numbers", [1, "2"]),
    ("texts", ["a", 1]),
    ("token_ids", "2"),
    ("token_ids", [1, -2]),
    ("section", []),
]


@pytest.mark.parametrize(("getter", "value"), WRONG)
def test_a_value_of_another_kind_is_named_with_its_key(getter: str, value: Any) -> None:
    with pytest.raises(CheckpointError, match=r"^config\.json: key is .*, not ") as caught:
        getattr(section(key=value), getter)("key")
    assert len(str(caught.value)) < 250


GETTERS = ["size", "count", "number", "text", "flag", "sizes", "counts", "numbers", "texts"]


@pytest.mark.parametrize("getter", [*GETTERS, "section"])
@pytest.mark.parametrize("values", [{}, {"key": None}])
def test_an_absent_value_is_missing_or_none(getter: str, values: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json has no key\."):
        getattr(section(**values), getter)("key")
    assert getattr(section(**values), f"optional_{getter}")("key") is None


@pytest.mark.parametrize(
    ("getter", "value", "result"),
    [
        ("size", 1, 1),
        ("size", 4096.0, 4096),
        ("count", 0, 0),
        ("number", 3, 3.0),
        ("number", -0.5, -0.5),
        ("text", "", ""),
        ("flag", False, False),
        ("sizes", [], []),
        ("counts", [0, 5], [0, 5]),
        ("numbers", [1, 2.5], [1.0, 2.5]),
        ("texts", ["a", "b"], ["a", "b"]),
    ],
)
def test_a_value_is_what_it_says(getter: str, value: Any, result: Any) -> None:
    assert getattr(section(key=value), getter)("key") == result
    assert getattr(section(key=value), f"optional_{getter}")("key") == result


def test_a_flag_may_have_a_default() -> None:
    assert section().flag("key", default=True) is True
    assert section(key=False).flag("key", default=True) is False


def test_nested_keys_are_named_in_full() -> None:
    inner = section(rope={"scaling": {"factor": "x"}}).section("rope").section("scaling")
    with pytest.raises(CheckpointError, match=r'rope\.scaling\.factor is "x", not a finite number'):
        inner.number("factor")
    with pytest.raises(CheckpointError, match=r"has no rope\.scaling\.type"):
        inner.text("type")


def test_a_fallback_is_named_where_the_key_is() -> None:
    outer = section(a="x", b=2)
    inner = JsonSection("config.json", {"b": 3}, "text_config.", outer)
    assert inner.size("b") == 3
    assert inner.has("a")
    with pytest.raises(CheckpointError, match=r'config\.json: a is "x"'):
        inner.size("a")
    with pytest.raises(CheckpointError, match=r"has no text_config\.c"):
        inner.size("c")


def test_long_values_are_shortened_in_errors() -> None:
    with pytest.raises(CheckpointError) as caught:
        section(key="x" * 1000).size("key")
    assert "..." in str(caught.value)
    assert len(str(caught.value)) < 150
