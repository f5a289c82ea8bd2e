"""Sampling against straightforward references, and the laws of its random streams."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mrs.runtime.generation import DryParams, SamplingParams
from mrs.runtime.sampling import Sampler
from mrs.runtime.sampling.candidates import Candidates
from mrs.runtime.sampling.draw import draw
from mrs.runtime.sampling.mirostat import Mirostat


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
    """Chi-square of 2,500 draws against the distribution computed the plain way."""
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
    counts = np.bincount([sampler.sample(values) for _ in range(2_500)], minlength=600)
    assert not counts[filtered == 0].any()
    common = filtered * 2_500 >= 5
    observed = [*counts[common], counts[~common].sum()]
    wanted = [*(filtered[common] * 2_500), filtered[~common].sum() * 2_500]
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
    assert mass[index] >= target - 1e-6 * mass[-1]
    assert mass[index] - weights[index] <= target + 1e-6 * mass[-1]


# --- penalties, bias and bans ---------------------------------------------------------------------


def test_greedy_decoding_is_penalized_too() -> None:
    values = np.array([3.0, 2.9, 0.0], np.float32)
    sampler = Sampler(SamplingParams(temperature=0.0, presence_penalty=1.0))
    assert [sampler.sample(values.copy()) for _ in range(3)] == [0, 1, 0]


def test_frequency_counts_what_was_drawn_and_not_the_prompt() -> None:
    values = np.array([3.0, 2.5], np.float32)
    sampler = Sampler(SamplingParams(temperature=0.0, frequency_penalty=1.0), prompt_ids=[0, 0, 0])
    assert [sampler.sample(values.copy()) for _ in range(3)] == [0, 1, 0]


def test_repetition_counts_the_prompt() -> None:
    values = np.array([3.0, 2.9], np.float32)
    sampler = Sampler(SamplingParams(temperature=0.0, repetition_penalty=2.0), prompt_ids=[0])
    assert sampler.sample(values) == 1


def test_penalties_forget_what_has_left_the_window() -> None:
    values = np.array([3.0, 2.0, 1.0], np.float32)
    params = SamplingParams(temperature=0.0, presence_penalty=10.0, penalty_window=1)
    sampler = Sampler(params)
    assert [sampler.sample(values.copy()) for _ in range(4)] == [0, 1, 0, 1]


def test_dry_breaks_a_loop() -> None:
    values = np.array([0.0, 3.0, 2.9, 0.0], np.float32)
    params = SamplingParams(temperature=0.0, dry=DryParams(multiplier=1.0))
    pieces = [b"a", b"b", b"c", b"d"]
    sampler = Sampler(params, prompt_ids=[0, 3, 1, 0, 3], pieces=pieces)
    assert sampler.sample(values) == 2


def test_a_breaker_lets_repetitions_be() -> None:
    values = np.array([0.0, 3.0, 2.9, 0.0], np.float32)
    params = SamplingParams(temperature=0.0, dry=DryParams(multiplier=1.0, breakers=("d",)))
    pieces = [b"a", b"b", b"c", b"d"]
    sampler = Sampler(params, prompt_ids=[0, 3, 1, 0, 3], pieces=pieces)
    assert sampler.sample(values) == 1


def test_a_bias_is_added() -> None:
    values = np.array([0.0, 0.0, 1.0], np.float32)
    sampler = Sampler(SamplingParams(temperature=0.0, logit_bias=((1, 2.0), (2, -5.0))))
    assert sampler.sample(values) == 1


def test_no_ending_is_drawn_before_the_least_number_of_tokens() -> None:
    values = np.array([5.0, 4.0, 1.0], np.float32)
    params = SamplingParams(temperature=0.0, min_tokens=2, stop_token_ids=(1,))
    sampler = Sampler(params, eos_token_ids=[0])
    assert [sampler.sample(values.copy()) for _ in range(3)] == [2, 2, 0]


def test_mirostat_holds_the_surprise() -> None:
    """The bound settles where the tokens within it surprise by tau on average."""
    values = logits(8, size=2000, scale=1.5)
    share = softmax(values)
    controller = Mirostat(target=5.0, rate=0.05)
    uniforms = np.random.default_rng(2).random(3000)
    bounds = []
    for uniform in uniforms:
        controller.draw(Candidates.all_of(values), uniform)
        bounds.append(controller.bound)
    kept = share[share >= 2.0 ** -np.mean(bounds[1000:])]
    entropy = -(kept / kept.sum() * np.log2(kept / kept.sum())).sum()
    assert entropy == pytest.approx(5.0, abs=0.15)


def test_xtc_draws_only_what_it_spares() -> None:
    values = np.log(np.array([0.5, 0.3, 0.2], np.float32))
    params = SamplingParams(seed=3, xtc_probability=1.0, xtc_threshold=0.25)
    sampler = Sampler(params)
    assert {sampler.sample(values.copy()) for _ in range(60)} == {1, 2}


CHAINS = [
    SamplingParams(seed=5, typical_p=0.7),
    SamplingParams(seed=5, top_n_sigma=1.0, min_p=0.05),
    SamplingParams(seed=5, top_k=20, typical_p=0.8, top_p=0.9, min_p=0.02),
    SamplingParams(seed=5, min_p=0.1),
    SamplingParams(seed=5, top_p=0.9, temperature=0.7),
    SamplingParams(seed=5, temperature=0.5),
]


@pytest.mark.parametrize(("size", "draws"), [(500, 2000), (17_000, 600)], ids=["small", "large"])
@pytest.mark.parametrize("params", CHAINS, ids=range(len(CHAINS)))
def test_draws_follow_the_distribution_that_the_filters_leave(
    params: SamplingParams, size: int, draws: int
) -> None:
    """By chi-square; the larger vocabulary is one that is not read as a whole."""
    values = logits(9, size=size, scale=3.0)
    scaled = values.astype(np.float64) / params.temperature
    kept = _filtered(scaled, params)
    expected = np.where(kept, softmax(scaled), 0.0)
    expected /= expected.sum()
    sampler = Sampler(params)
    drawn = np.bincount([sampler.sample(values) for _ in range(draws)], minlength=size)
    assert not drawn[~kept].any()
    often = expected * draws >= 5
    result = stats.chisquare(
        np.append(drawn[often], drawn[~often].sum() + 1e-9),
        np.append(expected[often], expected[~often].sum() + 1e-9 / draws) * drawn.sum(),
        sum_check=False,
    )
    assert result.pvalue > 1e-4


def test_xtc_excludes_as_often_as_asked_for() -> None:
    values = np.log(np.array([0.5, 0.3, 0.2], np.float32))
    sampler = Sampler(SamplingParams(seed=11, xtc_probability=0.4, xtc_threshold=0.25))
    drawn = np.bincount([sampler.sample(values) for _ in range(3000)], minlength=3)
    expected = 0.6 * np.array([0.5, 0.3, 0.2]) + 0.4 * np.array([0.0, 0.6, 0.4])
    assert stats.chisquare(drawn, expected * 3000).pvalue > 1e-4


def test_suppressed_tokens_are_never_drawn() -> None:
    values = np.array([9.0, 1.0, 8.0, 0.0], np.float32)
    greedy = Sampler(SamplingParams(temperature=0.0, suppress_tokens=(0, 2)))
    assert greedy.sample(values.copy()) == 1
    drawing = Sampler(SamplingParams(seed=1, suppress_tokens=(0, 2)))
    assert {drawing.sample(values.copy()) for _ in range(50)} == {1, 3}


@pytest.mark.parametrize(
    ("params", "adjusts"),
    [
        (SamplingParams(), False),
        (SamplingParams(top_p=0.5, logprobs=3), False),
        (SamplingParams(logit_bias=((1, 1.0),)), True),
        (SamplingParams(presence_penalty=0.1), True),
        (SamplingParams(suppress_tokens=(1,)), True),
        (SamplingParams(min_tokens=1), True),
    ],
    ids=str,
)
def test_logits_are_left_alone_where_nothing_adjusts_them(
    params: SamplingParams, adjusts: bool
) -> None:
    values = logits(3, size=20_000)
    before = values.copy()
    sampler = Sampler(params, eos_token_ids=[0], prompt_ids=[1])
    assert sampler.adjusts is adjusts
    sampler.sample(values)
    if not adjusts:
        np.testing.assert_array_equal(values, before)


@pytest.mark.parametrize("params", CHAINS, ids=range(len(CHAINS)))
def test_a_row_draws_alone_what_it_draws_among_others(params: SamplingParams) -> None:
    """Rows share room for numbers, and nothing else."""
    rows = [logits(seed, size=17_000) for seed in range(12)]
    alone = [Sampler(params, index).sample(row) for index, row in enumerate(rows)]
    others = Sampler(SamplingParams(seed=1, typical_p=0.5))
    among = []
    for index, row in enumerate(rows):
        others.sample(rows[-1])
        among.append(Sampler(params, index).sample(row))
    assert among == alone


def _filtered(values: np.ndarray, params: SamplingParams) -> np.ndarray:
    """Which tokens the definitions leave, with a full sort and float64."""
    kept = np.ones(len(values), dtype=bool)

    def shares() -> np.ndarray:
        weights = np.where(kept, np.exp(values - values[kept].max()), 0.0)
        return weights / weights.sum()

    def smallest_set(order: np.ndarray, p: float) -> np.ndarray:
        mass = np.cumsum(shares()[order])
        chosen = np.zeros(len(values), dtype=bool)
        chosen[order[: int(np.searchsorted(mass, p)) + 1]] = True
        return chosen & kept

    if params.top_n_sigma is not None:
        kept &= values >= values.max() - params.top_n_sigma * values.std()
    if params.top_k is not None:
        kept &= values >= np.sort(values)[-params.top_k]
    if params.typical_p < 1:
        share = shares()
        information = -np.log(np.where(share > 0, share, 1.0))
        distance = np.where(kept, abs(information - (share * information).sum()), np.inf)
        kept = smallest_set(np.argsort(distance, kind="stable"), params.typical_p)
    if params.top_p < 1:
        order = np.argsort(-np.where(kept, values, -np.inf), kind="stable")
        kept = smallest_set(order, params.top_p)
    if params.min_p > 0:
        share = shares()
        kept &= share >= params.min_p * share.max()
    return kept
