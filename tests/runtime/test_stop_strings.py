from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mrs.runtime.stop_strings import StopStringMatcher

# Few letters, so that stop strings overlap, contain each other and are begun in vain.
TEXT = st.text("ab", max_size=30) | st.text("aab\u00e9\U0001f600", max_size=20)
STOP = st.lists(
    st.text("ab", max_size=5) | st.text("aab\u00e9\U0001f600", min_size=1, max_size=4), max_size=5
)


def cut(text: str, stop: list[str]) -> tuple[str, bool]:
    """What should come out: everything before the stop string that is complete first."""
    for end in range(1, len(text) + 1):
        complete = [string for string in stop if string and text[:end].endswith(string)]
        if complete:
            return text[: end - max(map(len, complete))], True
    return text, False


def split(text: str, places: list[int]) -> list[str]:
    borders = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in pairwise(borders)]


@given(text=TEXT, stop=STOP, places=st.lists(st.integers(0, 100), max_size=8))
def test_the_outcome_does_not_depend_on_the_split(
    text: str, stop: list[str], places: list[int]
) -> None:
    matcher = StopStringMatcher(stop)
    shown, found = "", False
    for piece in split(text, places):
        safe, found = matcher.push(piece)
        shown += safe
    shown += matcher.flush()
    assert (shown, found) == cut(text, stop)


@given(text=TEXT, stop=STOP)
def test_only_the_beginning_of_a_stop_string_is_held_back(text: str, stop: list[str]) -> None:
    matcher = StopStringMatcher(stop)
    shown = ""
    for count, character in enumerate(text, 1):
        safe, found = matcher.push(character)
        shown += safe
        if found:
            break
        held = text[len(shown) : count]
        beginnings = [string[:size] for string in stop for size in range(len(string))]
        fitting = [start for start in beginnings if text[:count].endswith(start)]
        assert held == max(fitting, key=len, default="")


def test_without_stop_strings_text_passes_through() -> None:
    matcher = StopStringMatcher([])
    assert matcher.push("any") == ("any", False)
    assert matcher.flush() == ""


def test_empty_stop_strings_are_ignored() -> None:
    assert StopStringMatcher([""]).push("a") == ("a", False)


def test_nothing_comes_out_after_a_stop_string() -> None:
    matcher = StopStringMatcher(["."])
    assert matcher.push("a.b") == ("a", True)
    assert matcher.push("c") == ("", True)
    assert matcher.flush() == ""


def test_a_stop_string_is_found_across_pieces() -> None:
    matcher = StopStringMatcher(["END"])
    assert [matcher.push(piece) for piece in ("xE", "N", "D")] == [
        ("x", False),
        ("", False),
        ("", True),
    ]


def test_a_beginning_that_comes_to_nothing_is_let_out() -> None:
    matcher = StopStringMatcher(["END"])
    assert matcher.push("EN") == ("", False)
    assert matcher.push("OUGH") == ("ENOUGH", False)


def test_of_stop_strings_that_end_together_the_longest_counts() -> None:
    assert StopStringMatcher(["b", "ab"]).push("xab") == ("x", True)


def test_a_stop_string_inside_the_beginning_of_another_counts() -> None:
    assert StopStringMatcher(["abcd", "bc"]).push("abc") == ("a", True)
