"""Sampling against straightforward references, and the laws of its random streams."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mrs.runtime.generation import SamplingParams
from mrs.runtime.sampling import Sampler, draw, nucleus, nucleus_size, top_k


def logits(seed: int, size: int = 3000, scale: float = 2.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=size).astype(np.float32) * np.float32(scale)


def softmax(values: np.ndarray) -> np.ndarray:
    shifted = np.exp(values.astype(np.float64) - values.max())
    return shifted / shifted.sum()


def test_greedy_takes_the_largest() -> None:
    values = logits(1)
    assert Sampler(SamplingParams(temperature=0.0)).sample(values) == int(values.argmax())


def test_a_temperature_below_the_bound_is_greedy() -> None:
    values = logits(2)
    sampler = Sampler(SamplingParams(temperature=9e-8, seed=1))
    assert {sampler.sample(values) for _ in range(20)} == {int(values.argmax())}


def test_the_same_seed_gives_the_same_tokens() -> None:
    values = logits(3)
    one, two = (Sampler(SamplingParams(seed=42)) for _ in range(2))
    assert [one.sample(values) for _ in range(50)] == [two.sample(values) for _ in range(50)]


def test_choices_of_one_request_draw_from_different_streams() -> None:
    values = logits(3)
    streams = [Sampler(SamplingParams(seed=42), index) for index in range(3)]
    answers = [tuple(stream.sample(values) for _ in range(20)) for stream in streams]
    assert len(set(answers)) == 3


def test_without_a_seed_answers_differ() -> None:
    values = logits(3)
    answers = {tuple(Sampler(SamplingParams()).sample(values) for _ in range(20)) for _ in range(3)}
    assert len(answers) == 3


def test_negative_and_huge_seeds_are_streams_of_their_own() -> None:
    values = logits(3)
    seeds = [-(2**63), -1, 0, 2**63 - 1]
    answers = {
        tuple(Sampler(SamplingParams(seed=seed)).sample(values) for _ in range(20))
        for seed in seeds
    }
    assert len(answers) == len(seeds)


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(seed=7),
        SamplingParams(seed=7, temperature=0.5),
        SamplingParams(seed=7, top_k=5),
        SamplingParams(seed=7, top_p=0.7),
        SamplingParams(seed=7, top_k=20, top_p=0.6, temperature=1.3),
    ],
)
def test_draws_follow_the_filtered_softmax(params: SamplingParams) -> None:
    """Chi-square of 20,000 draws against the distribution computed the plain way."""
    values = logits(5, size=600)
    expected = softmax(values / np.float32(params.temperature))
    order = np.argsort(-expected, kind="stable")
    keep = np.ones(len(order), bool)
    if params.top_k is not None:
        keep[params.top_k :] = False
    ranked = np.where(keep, expected[order], 0.0)
    if params.top_p < 1.0:
        before = np.cumsum(ranked) - ranked
        ranked = np.where(before < params.top_p * ranked.sum(), ranked, 0.0)
    filtered = np.zeros_like(expected)
    filtered[order] = ranked / ranked.sum()

    sampler = Sampler(params)
    counts = np.bincount([sampler.sample(values) for _ in range(20_000)], minlength=600)
    assert not counts[filtered == 0].any()
    common = filtered * 20_000 >= 5
    observed = [*counts[common], counts[~common].sum()]
    wanted = [*(filtered[common] * 20_000), filtered[~common].sum() * 20_000]
    if wanted[-1] < 1e-9:
        observed, wanted = observed[:-1], wanted[:-1]
    assert stats.chisquare(observed, wanted).pvalue > 1e-4


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.0),
        SamplingParams(seed=1),
        SamplingParams(seed=1, top_k=5),
        SamplingParams(seed=1, top_p=0.5),
    ],
)
@pytest.mark.parametrize("spoilt", [{7: np.nan}, {7: np.inf}, {7: -np.nan, 8: np.inf}])
def test_no_token_is_drawn_from_what_is_no_number(
    params: SamplingParams, spoilt: dict[int, float]
) -> None:
    values = logits(3)
    for token, value in spoilt.items():
        values[token] = value
    with pytest.raises(FloatingPointError, match="the logit of token 7 is"):
        Sampler(params).sample(values)


def test_a_vocabulary_without_any_likely_token_is_an_error() -> None:
    with pytest.raises(FloatingPointError):
        Sampler(SamplingParams()).sample(np.full(100, -np.inf, np.float32))


def test_an_impossible_token_is_never_drawn() -> None:
    values = np.array([-np.inf, 0.0, -np.inf], np.float32)
    assert {Sampler(SamplingParams(seed=seed)).sample(values) for seed in range(20)} == {1}


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 2000), st.integers(1, 2000))
def test_top_k_equals_a_full_sort(seed: int, size: int, k: int) -> None:
    values = np.random.default_rng(seed).integers(0, 50, size).astype(np.float32)
    k = min(k, size)
    np.testing.assert_array_equal(top_k(values, k), np.argsort(-values, kind="stable")[:k])


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.01, 0.999), st.floats(0.01, 10.0))
def test_the_nucleus_is_the_smallest_set_that_reaches_p(seed: int, p: float, scale: float) -> None:
    values = logits(seed, scale=scale)
    weights = np.exp(values - values.max())
    kept = nucleus(values, weights, p)
    share = softmax(values)
    assert share[kept].sum() >= p - 1e-5
    assert share[kept[:-1]].sum() < p + 1e-5
    assert set(kept) == set(np.argsort(-values, kind="stable")[: len(kept)])


def test_the_nucleus_size_is_at_least_one() -> None:
    assert nucleus_size(np.array([1.0, 0.5], np.float32), 1e-9) == 1


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3000), st.floats(0, 1, exclude_max=True))
def test_a_draw_inverts_the_running_sum(seed: int, size: int, uniform: float) -> None:
    rng = np.random.default_rng(seed)
    weights = (rng.random(size) * (rng.random(size) < 0.5)).astype(np.float32)
    weights[rng.integers(size)] = 1.0
    index = draw(weights, uniform)
    assert weights[index] > 0
    mass = np.cumsum(weights, dtype=np.float64)
    target = uniform * mass[-1]
    assert mass[index] >= target - 1e-6
    assert mass[index] - weights[index] <= target + 1e-6
