"""Draws under an envelope follow the distribution in which every token is weighed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from mrs.runtime.generation import SamplingParams
from mrs.runtime.sampling import Sampler, envelope
from mrs.runtime.sampling.candidates import Candidates
from mrs.runtime.sampling.envelope import draw_whole, whole_floors
from mrs.runtime.sampling.heads import find_heads

DRAWS = 2_500
Logits = NDArray[np.float32]


def like_a_model(seed: int, size: int = 20_011) -> Logits:
    """A few likely tokens above a wide tail; the size does not fill the rows of a grid."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=size) * 2.5
    logits[rng.integers(0, size, 40)] += rng.uniform(4, 10, 40)
    logits[-3:] = 9.0  # What does not fill the grid is drawn too.
    return logits.astype(np.float32)


def expected(logits: Logits, temperature: float, top_p: float, min_p: float) -> NDArray[np.float64]:
    """Every token weighed and sorted, in float64."""
    weights = np.exp((logits.astype(np.float64) - logits.max()) / temperature)
    shares = weights / weights.sum()
    order = np.argsort(-shares, kind="stable")
    before = np.cumsum(shares[order]) - shares[order]
    kept = np.zeros_like(shares)
    kept[order] = np.where(before < top_p, shares[order], 0.0)
    kept[weights < min_p] = 0.0
    result: NDArray[np.float64] = kept / kept.sum()
    return result


def draw_one(
    candidates: Candidates, top_p: float, min_p: float, uniform: Callable[[], float]
) -> int | None:
    (head,) = find_heads([(candidates, whole_floors(candidates))])
    return None if head is None else draw_whole(candidates, head, top_p, min_p, uniform)


def chi_square(tokens: list[int], shares: NDArray[np.float64]) -> float:
    """The p value: rare tokens are counted together, in groups by how rare they are."""
    counts = np.bincount(tokens, minlength=len(shares))
    assert not counts[shares == 0].any()
    wanted = shares * len(tokens)
    groups = [np.array([place]) for place in np.flatnonzero(wanted >= 5)]
    for low, high in ((0.5, 5), (0.05, 0.5), (0, 0.05)):
        group = np.flatnonzero((wanted > low) & (wanted <= high) & (wanted < 5))
        if wanted[group].sum() >= 5:
            groups.append(group)
    if len(groups) == 1:
        return 1.0
    observed = np.array([counts[group].sum() for group in groups])
    means = np.array([wanted[group].sum() for group in groups])
    return float(stats.chisquare(observed, means * (observed.sum() / means.sum())).pvalue)


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.25])
@pytest.mark.parametrize(
    ("top_p", "min_p"), [(1.0, 0.0), (0.5, 0.0), (0.9, 0.0), (0.99, 0.0), (0.9, 0.02), (0.98, 1e-5)]
)
def test_draws_follow_the_distribution(temperature: float, top_p: float, min_p: float) -> None:
    logits = like_a_model(3)
    candidates = Candidates.all_of(logits, temperature)
    uniform = np.random.default_rng(11).random
    tokens = [draw_one(candidates, top_p, min_p, uniform) for _ in range(DRAWS)]
    drawn = [token for token in tokens if token is not None]
    assert len(drawn) == DRAWS
    assert chi_square(drawn, expected(logits, temperature, top_p, min_p)) > 1e-4


@pytest.fixture
def weighed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with each time that all tokens are weighed."""
    times: list[int] = []
    total = Candidates.total.func
    monkeypatch.setattr(Candidates, "total", property(lambda self: times.append(1) or total(self)))
    return times


def test_a_sampler_draws_under_the_envelope(weighed: list[int]) -> None:
    """And never weighs all tokens where bounds tell enough."""
    logits = like_a_model(4)
    sampler = Sampler(SamplingParams(seed=5))
    tokens = [sampler.sample(logits) for _ in range(DRAWS)]
    assert not weighed
    assert chi_square(tokens, expected(logits, 1.0, 1.0, 0.0)) > 1e-4


def test_a_nucleus_is_seldom_weighed(weighed: list[int]) -> None:
    logits = like_a_model(4)
    sampler = Sampler(SamplingParams(seed=5, top_p=0.8, temperature=0.8))
    for _ in range(1000):
        sampler.sample(logits)
    assert len(weighed) < 200


def test_an_envelope_that_is_far_too_wide_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each column holds one large number: nearly every place is above its token."""
    monkeypatch.setattr(envelope, "_MOST_PROPOSALS", 3)
    logits = np.full(1 << 15, -30.0, np.float32)
    logits[:1024] = -9.5 + np.linspace(0, 0.1, 1024)
    logits[5000] = 0.0
    candidates = Candidates.all_of(logits)
    uniform = np.random.default_rng(1).random
    tokens = [draw_one(candidates, 1.0, 0.0, uniform) for _ in range(4000)]
    assert chi_square([t for t in tokens if t is not None], expected(logits, 1.0, 1.0, 0.0)) > 1e-4


@pytest.mark.parametrize(
    "logits",
    [
        np.zeros(1 << 15, np.float32),  # All are as likely.
        np.linspace(0, 1, 3000, dtype=np.float32),  # Few tokens.
    ],
)
def test_nothing_is_won_where_all_tokens_are_about_as_likely(logits: Logits) -> None:
    assert draw_one(Candidates.all_of(logits), 1.0, 0.0, lambda: 0.5) is None


@given(
    seed=st.integers(0, 10_000),
    banned=st.integers(0, 20_000),
    temperature=st.sampled_from([1e-6, 0.01, 0.7, 1.0, 3.0, 1e6]),
    top_p=st.sampled_from([0.0, 1e-9, 0.3, 0.95, 1.0]),
    min_p=st.sampled_from([0.0, 1e-6, 0.05, 1.0]),
    numbers=st.lists(st.sampled_from([0.0, 1e-12, 0.5, 0.999, 1 - 2**-53]), min_size=1),
)
@settings(max_examples=150, deadline=None)
def test_what_is_drawn_is_never_outside(
    seed: int, banned: int, temperature: float, top_p: float, min_p: float, numbers: list[float]
) -> None:
    """Also at the ends of the random numbers, where most tokens are banned."""
    logits = like_a_model(seed)
    logits[np.random.default_rng(seed).permutation(len(logits))[:banned]] = -np.inf
    stream: Callable[[], float] = iter(numbers * 200).__next__
    token = draw_one(Candidates.all_of(logits, temperature), top_p, min_p, stream)
    if token is None:
        return
    assert logits[token] > -np.inf
    with np.errstate(over="ignore"):
        weights = np.exp((logits.astype(np.float64) - logits.max()) / temperature)
    assert weights[token] >= min_p * (1 - 1e-5)
    likelier = weights[logits > logits[token]].sum()
    assert likelier <= top_p * weights.sum() * (1 + 1e-6)


def test_the_same_seed_gives_the_same_tokens_of_a_large_vocabulary() -> None:
    logits = like_a_model(8)
    params = SamplingParams(seed=42, top_p=0.97, temperature=1.2)
    one, two = Sampler(params), Sampler(params)
    assert [one.sample(logits) for _ in range(50)] == [two.sample(logits) for _ in range(50)]
