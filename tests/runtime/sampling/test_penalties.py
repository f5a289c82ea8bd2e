"""Penalties against transformers' and against their definitions, written out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mrs.runtime.sampling.history import BreakerTracker, TokenHistory
from mrs.runtime.sampling.penalties import (
    LONGEST_MATCH,
    TokenCounts,
    dry_penalties,
    penalize_frequency,
    penalize_repetition,
)

REFERENCE = Path(__file__).parents[2] / "data" / "reference" / "samplers.npz"
TOKENS = st.lists(st.integers(0, 5), max_size=60)


def test_repetition_is_penalized_as_transformers_does_it() -> None:
    with np.load(REFERENCE) as stored:
        rows = zip(stored["logits"], stored["tokens"], stored["repetition_1.3"], strict=True)
        for logits, tokens, expected in rows:
            history = TokenHistory(tokens.tolist())
            penalize_repetition(logits, history.seen, 1.3)
            np.testing.assert_allclose(logits, expected, rtol=1e-6)


@given(tokens=TOKENS, frequency=st.floats(-2, 2), presence=st.floats(-2, 2))
@settings(max_examples=50, deadline=None)
def test_frequency_and_presence_are_openais(
    tokens: list[int], frequency: float, presence: float
) -> None:
    """mu[j] - c[j] * alpha_frequency - float(c[j] > 0) * alpha_presence."""
    counts = TokenCounts()
    for token in tokens:
        counts.add(token)
    logits = np.zeros(6, dtype=np.float32)
    penalize_frequency(logits, counts, frequency, presence)
    expected = [-tokens.count(j) * frequency - (j in tokens) * presence for j in range(6)]
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


@given(prompt=TOKENS, answer=TOKENS, window=st.none() | st.integers(1, 20))
@settings(max_examples=80, deadline=None)
def test_a_history_tells_of_the_newest_tokens(
    prompt: list[int], answer: list[int], window: int | None
) -> None:
    history = TokenHistory(prompt, window)
    for token in answer:
        history.append(token)
    newest = (prompt + answer)[-window if window else 0 :]
    if not answer:  # Only then may the prompt be longer than the window.
        return
    assert history.tokens.tolist() == newest
    assert set(history.tokens.tolist()) == set(newest)
    generated = answer[-window if window else 0 :]
    counted = dict(
        zip(history.generated.ids.tolist(), history.generated.counts.tolist(), strict=True)
    )
    assert {token: count for token, count in counted.items() if count} == {
        token: generated.count(token) for token in set(generated)
    }


def brute_force_dry(tokens: list[int], limit: int, allowed: int) -> dict[int, float]:
    """For each token that could come next: how long a repetition it would prolong."""
    longest: dict[int, int] = {}
    for end in range(1, len(tokens)):
        length = 0
        while length < min(limit, end) and tokens[end - 1 - length] == tokens[-1 - length]:
            length += 1
        longest[tokens[end]] = max(longest.get(tokens[end], 0), length)
    return {t: 0.8 * 1.75 ** (n - allowed) for t, n in longest.items() if n >= allowed}


@given(tokens=TOKENS, limit=st.integers(0, 40), allowed=st.integers(1, 4))
@settings(max_examples=200, deadline=None)
def test_dry_prolongs_no_repetition(tokens: list[int], limit: int, allowed: int) -> None:
    found = dry_penalties(
        np.array(tokens, dtype=np.int64), limit, multiplier=0.8, base=1.75, allowed_length=allowed
    )
    assert dict(found) == brute_force_dry(tokens, limit, allowed)


PIECES = [b"a", b"b", b"\n", b": ", b"x:", b"en", b"d", b"end", b""]


@given(tokens=st.lists(st.integers(0, len(PIECES) - 1), max_size=40))
@settings(max_examples=200, deadline=None)
def test_a_breaker_counts_with_the_token_that_completes_it(tokens: list[int]) -> None:
    breakers = [b"\n", b":", b"end"]
    tracker = BreakerTracker(breakers, PIECES)
    text, passed = b"", 0
    for token in tokens:
        before = sum(_count(text, breaker) for breaker in breakers)
        text += PIECES[token]
        after = sum(_count(text, breaker) for breaker in breakers)
        passed = 0 if after > before else passed + 1
        tracker.append(token)
        assert tracker.passed == passed


@given(tokens=st.lists(st.integers(0, len(PIECES) - 1), max_size=400), rare=st.integers(1, 300))
@settings(max_examples=100, deadline=None)
def test_the_end_of_a_prompt_is_enough_to_begin_with(tokens: list[int], rare: int) -> None:
    tokens = [token if place % rare == 0 else 0 for place, token in enumerate(tokens)]
    breakers = [b"\n", b":", b"end"]
    whole, begun = BreakerTracker(breakers, PIECES), BreakerTracker(breakers, PIECES)
    for token in tokens:
        whole.append(token)
    begun.begin(tokens)
    for token in [5, 6, *tokens]:  # The end of "end" among them.
        assert min(begun.passed, LONGEST_MATCH) == min(whole.passed, LONGEST_MATCH)
        whole.append(token)
        begun.append(token)


def _count(text: bytes, part: bytes) -> int:
    return sum(text.startswith(part, at) for at in range(len(text)))
