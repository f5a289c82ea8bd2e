from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrs.server.conversation.python_text import copy_python_value
from tests.server.conversation.reading import cut
from tests.server.conversation.test_feed import run

_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
VALUES = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab'\"\\"), inner, max_size=3)
    ),
    max_leaves=8,
)


def converted(text: str, places: list[int] | None = None) -> tuple[bool, str, str]:
    pieces: list[str] = []
    good, rest = run(lambda feed: copy_python_value(feed, pieces.append), cut(text, places or []))
    return good, "".join(pieces), rest


@given(VALUES, st.lists(st.integers(0, 999)))
def test_what_python_writes_of_a_value_becomes_its_json(value: Any, places: list[int]) -> None:
    good, passed, rest = converted(repr(value) + ", x", places)
    assert (good, rest) == (True, ", x")
    assert json.loads(passed) == value


@given(VALUES)
def test_json_is_understood_too(value: Any) -> None:
    assert json.loads(converted(json.dumps(value))[1]) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(1, 2)", [1, 2]),
        ("[1, 2,]", [1, 2]),
        ("{1: 'a'}", {"1": "a"}),
        ("1_000", 1000),
        ("+.5", 0.5),
        ("null", None),
        ("true", True),
        (r"'\x41\u00e9\U0001F63A'", "Aé😺"),
        (r"'\d'", r"\d"),
    ],
)
def test_other_spellings(text: str, value: Any) -> None:
    good, passed, _ = converted(text)
    assert good
    assert json.loads(passed) == value


@pytest.mark.parametrize("text", ["name", "[1 2]", "{'a' 1}", "'open", "inf", "", "f(x)", "[" * 99])
def test_what_is_no_literal_is_refused(text: str) -> None:
    assert not converted(text)[0]
