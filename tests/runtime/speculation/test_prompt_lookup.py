from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrs.runtime.generation import SamplingParams
from mrs.runtime.sequence import Sequence
from mrs.runtime.speculation.prompt_lookup import PromptLookup, continuation
from mrs.runtime.speculation.proposer import Wish
from mrs.runtime.ticket import Choice


def after(*tokens: int, most: int = 3) -> list[int]:
    return continuation(np.array(tokens, dtype=np.int64), most)


@pytest.mark.parametrize(
    ("tokens", "guesses"),
    [
        ((1, 2, 3, 4, 5, 1, 2), [3, 4, 5]),
        ((1, 2, 3, 4), []),
        ((1, 9, 3, 2, 9), []),  # One token alone is no reason.
        ((9, 2, 3, 8, 2, 4, 2, 3), [8, 2, 4]),
        ((1, 2, 3, 7, 9, 2, 3, 8, 1, 2, 3), [7, 9, 2]),  # Three agree: more than the newer two.
        ((1, 2, 5, 1, 2, 6, 1, 2), [6, 1, 2]),  # As many agree: the newer one.
        ((4, 4, 4), [4, 4, 4]),
        ((1, 2, 1, 2, 1, 2), [1, 2, 1]),
        ((5,), []),
    ],
)
def test_what_followed_before_follows_again(tokens: tuple[int, ...], guesses: list[int]) -> None:
    assert after(*tokens) == guesses


def by_definition(tokens: list[int], most: int) -> list[int]:
    """The longest agreement of 4, 3 or 2 tokens, the newest of those, continued."""
    for size in (4, 3, 2):
        newest = tokens[-size:]
        for start in range(len(tokens) - size - 1, -1, -1):
            if len(newest) == size and tokens[start : start + size] == newest:
                known = list(tokens)
                for index in range(start + size, start + size + most):
                    known.append(known[index])
                return known[len(tokens) :]
    return []


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(1, 12))
def test_the_array_search_is_the_definition(tokens: list[int], most: int) -> None:
    assert after(*tokens, most=most) == by_definition(tokens, most)


def test_tokens_that_come_later_are_seen() -> None:
    sequence = Sequence((1, 2, 3, 1), SamplingParams(), 0, 100)
    choice = Choice(None, sequence, None, None)  # type: ignore[arg-type]
    lookup = PromptLookup()
    assert lookup.propose([Wish(choice, 2)]) == [[]]
    sequence.output_ids += [2]
    assert lookup.propose([Wish(choice, 2)]) == [[3, 1]]
    sequence.output_ids += range(50, 90)
    sequence.output_ids += [2, 3]
    assert lookup.propose([Wish(choice, 1)]) == [[1]]
