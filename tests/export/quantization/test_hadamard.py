from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrs.export.quantization.hadamard import group_size, hadamard, turned_weights

SIZES = [1, 2, 4, 8, 16, 32, 64]


@pytest.mark.parametrize("size", SIZES)
def test_each_sign_is_the_parity_of_the_bits_that_row_and_column_share(size: int) -> None:
    """Sylvester's matrix, by another definition than that which builds it."""
    expected = [
        [(-1) ** (row & column).bit_count() for column in range(size)] for row in range(size)
    ]
    np.testing.assert_array_equal(hadamard(size), expected)


@pytest.mark.parametrize("size", SIZES)
def test_twice_is_the_size_times_the_identity(size: int) -> None:
    np.testing.assert_array_equal(hadamard(size) @ hadamard(size), size * np.eye(size))


@pytest.mark.parametrize(
    ("columns", "size"),
    [(1, 1), (7, 1), (12, 4), (96, 32), (576, 64), (896, 64), (2304, 64), (4096, 64)],
)
def test_a_group_divides_the_columns(columns: int, size: int) -> None:
    assert group_size(columns) == size


@given(
    size=st.sampled_from(SIZES),
    groups=st.integers(1, 4),
    seed=st.integers(0, 1 << 16),
)
def test_products_with_turned_activations_stay_what_they_were(
    size: int, groups: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    # Small integers: sums of them, and quotients by powers of two, are exact in float32.
    x, weights = (
        random.integers(-100, 101, (rows, size * groups)).astype(np.float32) for rows in (3, 5)
    )
    turned = (x.reshape(3, groups, size) @ hadamard(size)).reshape(x.shape)
    np.testing.assert_array_equal(turned @ turned_weights(weights, size).T, x @ weights.T)


def test_one_large_column_is_spread_over_its_group() -> None:
    weights = np.zeros((1, 128), dtype=np.float32)
    weights[0, 3] = 64
    found = turned_weights(weights, 64)
    np.testing.assert_array_equal(np.abs(found[0, :64]), 1)
    assert not found[0, 64:].any()
