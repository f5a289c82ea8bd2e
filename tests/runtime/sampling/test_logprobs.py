"""Log probabilities against a float64 log-softmax."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrs.runtime.sampling.logprobs import RawLogprobs


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 500), st.floats(0.01, 30), st.integers(0, 20))
def test_they_are_the_log_softmax(seed: int, size: int, scale: float, alternatives: int) -> None:
    logits = (scale * np.random.default_rng(seed).standard_normal(size)).astype(np.float32)
    wide = logits.astype(np.float64)
    expected = wide - wide.max() - np.log(np.exp(wide - wide.max()).sum())
    found = RawLogprobs(logits, alternatives).of(size // 2)
    assert found.token == size // 2
    assert found.logprob == pytest.approx(expected[size // 2], abs=1e-4)
    assert [token for token, _ in found.top] == (
        np.argsort(-logits, kind="stable")[:alternatives].tolist()
    )
    values = [logprob for _, logprob in found.top]
    assert values == pytest.approx(sorted(expected, reverse=True)[:alternatives], abs=1e-4)


def test_what_is_done_to_the_logits_later_does_not_matter() -> None:
    logits = np.array([1.0, 2.0], np.float32)
    raw = RawLogprobs(logits, 1)
    logits[:] = 0
    assert raw.of(0).top[0][0] == 1


def test_no_probability_is_above_one() -> None:
    assert RawLogprobs(np.array([1e4, 0.0], np.float32), 0).of(0).logprob == 0.0
