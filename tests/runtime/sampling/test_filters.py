"""What each filter keeps, against transformers' and against the definitions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mrs.runtime.generation import SamplingParams
from mrs.runtime.sampling.candidates import Candidates
from mrs.runtime.sampling.filters import (
    exclude_top_choices,
    keep_min_p,
    keep_nucleus,
    keep_top_k,
    keep_top_n_sigma,
    keep_typical,
)
from tests.runtime.sampling.logits import rows
from tests.runtime.sampling.whole_vocabulary import bounds, by_likelihood

REFERENCE = Path(__file__).parents[2] / "data" / "reference" / "samplers.npz"

Filter = Callable[[Candidates], Candidates]
FILTERS: dict[str, Filter] = {
    "top_k_7": lambda found: keep_top_k(found, 7),
    "top_p_0.6": lambda found: keep_nucleus(found, 0.6),
    "min_p_0.1": lambda found: keep_min_p(found, 0.1),
    "typical_0.5": lambda found: keep_typical(found, 0.5),
}
OTHERS: dict[str, Filter] = {
    "top_n_sigma": lambda found: keep_top_n_sigma(found, 1.5),
    "xtc": lambda found: exclude_top_choices(found, 0.05),
}


def kept(found: Candidates) -> set[int]:
    return {found.token(place) for place in np.flatnonzero(found.weights).tolist()}


@pytest.mark.parametrize("name", FILTERS)
def test_it_keeps_what_transformers_keeps(name: str) -> None:
    with np.load(REFERENCE) as stored:
        for logits, expected in zip(stored["logits"], stored[name], strict=True):
            found = FILTERS[name](Candidates.all_of(logits))
            assert kept(found) == set(np.flatnonzero(np.isfinite(expected)).tolist())


def logits(seed: int, size: int = 600) -> NDArray[np.float32]:
    return (2 * np.random.default_rng(seed).standard_normal(size)).astype(np.float32)


@pytest.mark.parametrize("name", [*FILTERS, *OTHERS])
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), size=st.integers(1, 900))
def test_it_does_not_matter_whether_candidates_were_sorted_before(
    name: str, seed: int, size: int
) -> None:
    keep = {**FILTERS, **OTHERS}[name]
    everything = Candidates.all_of(logits(seed, size))
    in_order = everything.keep_sorted(np.arange(size))
    assert kept(keep(everything)) == kept(keep(in_order))


@pytest.mark.parametrize("name", [*FILTERS, *OTHERS])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_logits_stay_with_their_tokens(name: str, seed: int) -> None:
    values = logits(seed)
    found = {**FILTERS, **OTHERS}[name](Candidates.all_of(values))
    tokens = [found.token(place) for place in range(len(found.logits))]
    assert tokens
    np.testing.assert_array_equal(found.logits, values[tokens])


LAWS: list[tuple[Filter, dict[str, Any]]] = [
    (lambda found: keep_top_k(found, 1), {"top_k": 1}),
    (lambda found: keep_top_k(found, 40), {"top_k": 40}),
    (lambda found: keep_top_k(found, 700), {"top_k": 700}),
    (lambda found: keep_nucleus(found, 0.3), {"top_p": 0.3}),
    (lambda found: keep_nucleus(found, 0.9), {"top_p": 0.9}),
    (lambda found: keep_nucleus(found, 0.9999), {"top_p": 0.9999}),
    (lambda found: keep_min_p(found, 0.05), {"min_p": 0.05}),
    (lambda found: keep_min_p(found, 1.0), {"min_p": 1.0}),
    (lambda found: keep_min_p(found, 1e-12), {"min_p": 1e-12}),
    (lambda found: keep_typical(found, 0.2), {"typical_p": 0.2}),
    (lambda found: keep_typical(found, 0.95), {"typical_p": 0.95}),
    (lambda found: keep_top_n_sigma(found, 0.5), {"top_n_sigma": 0.5}),
    (lambda found: keep_top_n_sigma(found, 3.0), {"top_n_sigma": 3.0}),
]


@pytest.mark.parametrize(("keep", "params"), LAWS, ids=[str(params) for _, params in LAWS])
@given(values=rows(), temperature=st.sampled_from([1.0, 0.7, 1e-3, 50.0]))
@settings(max_examples=25, deadline=None)
def test_candidates_are_those_of_the_whole_vocabulary(
    keep: Filter, params: dict[str, Any], values: NDArray[np.float32], temperature: float
) -> None:
    must, may = bounds(values, SamplingParams(temperature=temperature, **params))
    found = keep(Candidates.all_of(values, temperature))
    ids = np.arange(len(values)) if found.ids is None else found.ids
    chosen = np.zeros(len(values), dtype=bool)
    chosen[ids] = True
    # Which of the impossible ones are kept makes no difference to anybody.
    possible = np.zeros(len(values), dtype=bool)
    possible[ids] = found.weights > 0
    assert not (must & ~chosen & np.isfinite(values)).any()
    assert not (possible & ~may).any()
    if found.ids is not None:
        np.testing.assert_array_equal(ids, by_likelihood(values, chosen))


def test_top_n_sigma_is_not_misled_by_tokens_that_are_banned() -> None:
    values = logits(3)
    banned = np.concatenate([values, np.full(5, -np.inf, np.float32)])
    assert kept(keep_top_n_sigma(Candidates.all_of(banned), 1.0)) == kept(
        keep_top_n_sigma(Candidates.all_of(values), 1.0)
    )


SHARES = np.array([0.4, 0.05, 0.3, 0.2, 0.05], dtype=np.float32)


def test_xtc_spares_the_least_likely_of_the_likely() -> None:
    found = exclude_top_choices(Candidates.all_of(np.log(SHARES)), 0.15)
    assert kept(found) == {1, 3, 4}


@pytest.mark.parametrize("threshold", [0.35, 0.51, 1.0])
def test_xtc_excludes_nothing_where_fewer_than_two_are_likely(threshold: float) -> None:
    found = exclude_top_choices(Candidates.all_of(np.log(SHARES)), threshold)
    assert kept(found) == set(range(5))


def test_xtc_never_spares_what_is_impossible() -> None:
    values = np.array([0.0, -1.0, -np.inf, -3.0], np.float32)
    assert kept(exclude_top_choices(Candidates.all_of(values), 0.0)) == {3}
