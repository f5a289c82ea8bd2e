from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrs.server.conversation.feed import Feed, Reading
from mrs.server.conversation.json_text import MAX_DEPTH, copy_value, read_string, read_value
from tests.server.conversation.reading import cut
from tests.server.conversation.test_feed import run

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def copied(text: str, places: list[int] | None = None) -> tuple[bool, str, str]:
    """Whether it was JSON, what was passed on, and what was left."""
    pieces: list[str] = []
    good, rest = run(lambda feed: copy_value(feed, pieces.append), cut(text, places or []))
    return good, "".join(pieces), rest


@given(VALUES, st.booleans(), st.integers(0, 3), st.lists(st.integers(0, 999)))
def test_any_json_is_passed_on_as_it_is(
    value: Any, ascii_only: bool, indent: int, places: list[int]
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent or None)
    assert copied(text + " x", places) == (True, text, " x")


@pytest.mark.parametrize(
    ("text", "passed", "rest"),
    [
        ('{"a": oops}', '{"a": ', "oops}"),
        ('{"a" 1}', '{"a" ', "1}"),
        ("{'a': 1}", "{", "'a': 1}"),
        ('{"a": 1,}', '{"a": 1,', "}"),
        ("[1 2]", "[1 ", "2]"),
        ("[1}", "[1", "}"),
        ('"\\x"', '"', '\\x"'),
        ('"\\u12g4"', '"', '\\u12g4"'),
        ("]", "", "]"),
        ("", "", ""),
        ("tru", "", "tru"),
        ('{"a": "b', '{"a": "b', ""),
    ],
)
def test_what_is_no_json_is_left_from_the_first_wrong_character(
    text: str, passed: str, rest: str
) -> None:
    assert copied(text) == (False, passed, rest)


@pytest.mark.parametrize("number", ["01", "-", "1.", ".5", "1e", "--1", "+1"])
def test_what_is_no_number_is_refused(number: str) -> None:
    assert not copied(number)[0]


def test_a_line_break_in_a_string_is_escaped() -> None:
    good, passed, _ = copied('{"code": "a\n\tb"}')
    assert good
    assert json.loads(passed) == {"code": "a\n\tb"}


def test_an_escape_is_passed_on_whole() -> None:
    pieces: list[str] = []
    text = '"\\u00e9\\n"'
    run(lambda feed: copy_value(feed, pieces.append), list(text))
    assert pieces == ['"', "\\u00e9", "\\n", '"']


def test_nesting_has_a_bound() -> None:
    assert copied("[" * MAX_DEPTH + "]" * MAX_DEPTH)[0]
    assert not copied("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))[0]


def test_a_long_text_at_once_costs_linear_time() -> None:
    """Ten times the text in ten times the steps: counted, not timed."""

    def steps(length: int) -> int:
        feed, count = Feed(), 0

        def emit(_: str) -> None:
            nonlocal count
            count += 1

        feed.push(json.dumps({"a": ["x\n"] * length}))
        reading: Reading[bool] = copy_value(feed, emit)
        with pytest.raises(StopIteration):
            next(reading)
        return count

    assert steps(10_000) < 11 * steps(1_000)


@given(st.text(max_size=50), st.lists(st.integers(0, 99)))
def test_a_string_is_read_as_what_it_says(text: str, places: list[int]) -> None:
    written = json.dumps(text)
    assert run(read_string, cut(written + ":", places)) == (text, ":")


@pytest.mark.parametrize("text", ["x", '"a', '"' + "a" * 5000 + '"'])
def test_what_is_no_short_string_is_none(text: str) -> None:
    assert run(read_string, [text])[0] is None


def test_a_value_is_read_whole() -> None:
    assert run(read_value, ['{"a', '": [1', "]} x"]) == ('{"a": [1]}', " x")
    assert run(read_value, ["{"])[0] is None
