"""The largest of a row, against a full sort."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mrs.runtime.sampling.peaks import Peaks, descending
from tests.runtime.sampling.logits import rows


@given(values=rows())
@settings(max_examples=60, deadline=None)
def test_the_order_is_that_of_a_stable_sort(values: NDArray[np.float32]) -> None:
    np.testing.assert_array_equal(descending(values), np.argsort(-values, kind="stable"))


@given(values=rows(), k=st.sampled_from([0, 1, 2, 40, 127, 128, 129, 5000, 20_001, 30_000]))
@settings(max_examples=60, deadline=None)
def test_the_top_is_the_beginning_of_a_full_sort(values: NDArray[np.float32], k: int) -> None:
    np.testing.assert_array_equal(Peaks(values).top(k), np.argsort(-values, kind="stable")[:k])


@given(values=rows(), data=st.data())
@settings(max_examples=80, deadline=None)
def test_what_reaches_a_floor_is_found(values: NDArray[np.float32], data: st.DataObject) -> None:
    finite = values[np.isfinite(values)].astype(np.float64)
    at = float(np.quantile(finite, data.draw(st.sampled_from([0.0, 0.5, 0.9, 0.999, 1.0]))))
    floor = data.draw(st.sampled_from([-np.inf, at, at * (1 + 1e-12) + 1e-12, np.inf]))
    found = Peaks(values).at_least(floor)
    np.testing.assert_array_equal(found, np.flatnonzero(values.astype(np.float64) >= floor))


@given(values=rows())
@settings(max_examples=20, deadline=None)
def test_the_largest_is_the_largest(values: NDArray[np.float32]) -> None:
    assert Peaks(values).largest == values.max()


def test_what_is_no_number_is_the_largest() -> None:
    for size in (10, 20_001):
        for place in (0, size // 2, size - 1):
            values = np.zeros(size, np.float32)
            values[place] = np.nan
            assert np.isnan(Peaks(values).largest)
