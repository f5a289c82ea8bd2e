from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from mrs.export.quantization.offset_columns import (
    OffsetColumns,
    copies_of_sums,
    encode_offsets,
)

# A cast of NaN or infinity to a code would only warn.
pytestmark = pytest.mark.filterwarnings("error")

BLOCK = 32
Floats = NDArray[np.float32]

any_offsets = arrays(
    np.float32,
    st.tuples(st.integers(1, 3), st.integers(1, 80)),
    elements=st.one_of(st.floats(-1, 1, width=32), st.floats(-(2.0**120), 2.0**120, width=32)),
)


def share_a_block(copies: int, sums: int) -> bool:
    """Whether the first and the last of the copies have columns in one block."""
    last_start = (copies - 1) * sums
    return last_start // BLOCK <= (sums - 1) // BLOCK


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 2000))
def test_first_and_last_copy_share_no_block(sums: int) -> None:
    assert not share_a_block(copies_of_sums(sums), sums)


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 2000))
def test_no_fewer_copies_would_do(sums: int) -> None:
    assert all(share_a_block(fewer, sums) for fewer in range(1, copies_of_sums(sums)))


@pytest.mark.parametrize(
    ("sums", "copies"), [(32, 2), (64, 2), (18, 3), (33, 3), (48, 3), (11, 4), (10, 5), (1, 33)]
)
def test_copies(sums: int, copies: int) -> None:
    assert copies_of_sums(sums) == copies


# --- how well offsets are kept --------------------------------------------------------------------


def largest_by_block(values: NDArray[np.float64], start: int) -> NDArray[np.float64]:
    """For each column the largest magnitude in its block, where the columns begin at ``start``."""
    block_of = (start + np.arange(values.shape[1])) // BLOCK
    largest = np.empty_like(values)
    for block in np.unique(block_of):
        here = block_of == block
        largest[:, here] = np.abs(values[:, here]).max(axis=1, keepdims=True)
    return largest


@settings(max_examples=80, deadline=None)
@given(any_offsets)
def test_an_offset_is_off_by_a_225th_of_the_largest_around_it(offsets: Floats) -> None:
    """Each level leaves half of its step, which is a 15th of the largest value in the block.

    So the second level finds at most a 15th of the largest in a first block, and leaves a 15th of
    the largest that it finds in a second block.
    """
    sums = offsets.shape[1]
    columns = encode_offsets(offsets)
    error = np.abs(columns.offsets(sums).astype(np.float64) - offsets)
    left = largest_by_block(offsets.astype(np.float64), 0) / 15
    allowed = largest_by_block(left, columns.columns - sums) / 15
    assert np.all(error <= 1.0001 * allowed + 1e-36)


@settings(max_examples=80, deadline=None)
@given(
    step=st.floats(1e-6, 1e3),
    offsets=arrays(np.float64, (2, 40), elements=st.floats(-0.5, 0.5)),
)
def test_with_equal_steps_an_offset_is_off_by_a_450th_of_a_step(
    step: float, offsets: NDArray[np.float64]
) -> None:
    given_offsets = (offsets * step).astype(np.float32)
    error = np.abs(encode_offsets(given_offsets).offsets(40) - given_offsets)
    assert np.all(error <= 1.0001 * step / 450)


@settings(max_examples=80, deadline=None)
@given(any_offsets)
def test_no_offset_stays_none(offsets: Floats) -> None:
    """Rows of a type without offsets may share a matrix with rows that have some."""
    offsets[:, ::3] = 0
    assert not encode_offsets(offsets).offsets(offsets.shape[1])[:, ::3].any()


def test_rows_are_encoded_apart() -> None:
    offsets = np.full((2, 32), 1e-6, dtype=np.float32)
    offsets[1] = 1e6
    np.testing.assert_allclose(encode_offsets(offsets).offsets(32), offsets, rtol=1.0001 / 225)


# --- where they are -------------------------------------------------------------------------------


def column_values(columns: OffsetColumns) -> Floats:
    centred = columns.codes.astype(np.float32) - columns.zero_points[..., None]
    values: Floats = (centred * columns.scales[..., None]).reshape(len(columns.codes), -1)
    return values


@pytest.mark.parametrize("sums", [1, 11, 18, 32, 33, 70])
def test_only_first_and_last_copy_hold_anything(sums: int) -> None:
    offsets = np.random.default_rng(0).normal(size=(3, sums)).astype(np.float32)
    columns = encode_offsets(offsets)
    values = column_values(columns)
    last = columns.columns - sums
    assert columns.columns == copies_of_sums(sums) * sums
    assert not values[:, sums:last].any()
    assert not values[:, columns.columns :].any()
    np.testing.assert_array_equal(
        columns.offsets(sums), values[:, :sums] + values[:, last : columns.columns]
    )


@pytest.mark.parametrize("sums", [1, 18, 32, 70])
def test_columns_fill_whole_blocks(sums: int) -> None:
    columns = encode_offsets(np.ones((3, sums), dtype=np.float32))
    blocks = -(-columns.columns // BLOCK)
    assert columns.codes.shape == (3, blocks, BLOCK)
    assert columns.scales.shape == columns.zero_points.shape == (3, blocks)
    assert columns.codes.max() <= 15
