from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from mrs.runtime.literals import any_of

LITERALS = st.lists(st.text(st.sampled_from("ab<|>"), min_size=1, max_size=5), min_size=1)


@given(literals=LITERALS, text=st.text(st.sampled_from("ab<|>")))
def test_matches_are_those_of_the_plain_alternation_with_the_longest_first(
    literals: list[str], text: str
) -> None:
    longest_first = "|".join(map(re.escape, sorted(literals, key=len, reverse=True)))
    assert re.findall(any_of(literals), text) == re.findall(longest_first, text)


@given(literals=st.lists(st.text(min_size=1), min_size=1))
def test_every_literal_is_found(literals: list[str]) -> None:
    pattern = re.compile(any_of(literals))
    assert all(pattern.fullmatch(literal) for literal in literals)


def test_beginnings_of_each_other_without_end_are_found() -> None:
    literals = ["a" * length for length in range(1, 2000)]
    match = re.match(any_of(literals), "a" * 3000)
    assert match is not None
    assert match.end() == 1999


def test_no_literals_make_no_pattern() -> None:
    assert any_of([]) == ""
