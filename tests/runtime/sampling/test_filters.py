"""What each filter keeps, against transformers' and against the definitions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mrs.runtime.sampling.filters import (
    Candidates,
    exclude_top_choices,
    keep_min_p,
    keep_nucleus,
    keep_top_k,
    keep_top_n_sigma,
    keep_typical,
)

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
    return {found.token(place) for place in range(len(found.logits))}


@pytest.mark.parametrize("name", FILTERS)
def test_it_keeps_what_transformers_keeps(name: str) -> None:
    with np.load(REFERENCE) as stored:
        for logits, expected in zip(stored["logits"], stored[name], strict=True):
            found = FILTERS[name](Candidates(logits))
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
    everything = Candidates(logits(seed, size))
    assert kept(keep(everything)) == kept(keep(everything.sorted()))


@pytest.mark.parametrize("name", [*FILTERS, *OTHERS])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_logits_stay_with_their_tokens(name: str, seed: int) -> None:
    values = logits(seed)
    found = {**FILTERS, **OTHERS}[name](Candidates(values))
    tokens = [found.token(place) for place in range(len(found.logits))]
    assert tokens
    np.testing.assert_array_equal(found.logits, values[tokens])


@given(seed=st.integers(0, 2**32), n=st.floats(0.1, 4))
@settings(max_examples=30, deadline=None)
def test_top_n_sigma_keeps_what_is_within_so_many_deviations(seed: int, n: float) -> None:
    values = logits(seed)
    floor = values.max() - n * values.std(dtype=np.float64)
    assert kept(keep_top_n_sigma(Candidates(values), n)) == set(np.flatnonzero(values >= floor))


def test_top_n_sigma_is_not_misled_by_tokens_that_are_banned() -> None:
    values = logits(3)
    banned = np.concatenate([values, np.full(5, -np.inf, np.float32)])
    assert kept(keep_top_n_sigma(Candidates(banned), 1.0)) == kept(
        keep_top_n_sigma(Candidates(values), 1.0)
    )


def test_xtc_spares_the_least_likely_of_the_likely() -> None:
    shares = np.array([0.4, 0.05, 0.3, 0.2, 0.05], dtype=np.float32)
    found = exclude_top_choices(Candidates(np.log(shares)), 0.15)
    assert kept(found) == {1, 3, 4}


@pytest.mark.parametrize("threshold", [0.35, 0.51, 1.0])
def test_xtc_excludes_nothing_where_fewer_than_two_are_likely(threshold: float) -> None:
    shares = np.array([0.4, 0.05, 0.3, 0.2, 0.05], dtype=np.float32)
    assert kept(exclude_top_choices(Candidates(np.log(shares)), threshold)) == set(range(5))
