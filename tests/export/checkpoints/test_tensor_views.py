"""Views of stored tensors against the same thing done by numpy on the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mrs.errors import CorruptCheckpointError
from mrs.export.checkpoints.checkpoint import TensorInfo
from mrs.export.checkpoints.tensor_views import (
    Mxfp4,
    PartOfEach,
    PartOfRows,
    Stack,
    Stored,
    TensorView,
    Transposed,
    count_rows,
)
from mrs.export.quantization.dequantize import dequantize

RNG = np.random.default_rng(0)


def stored(values: NDArray[Any], name: str = "w") -> Stored:
    """A tensor in memory."""
    dtype = {"float32": "F32", "float16": "F16", "uint8": "U8"}[values.dtype.name]
    rows = np.ascontiguousarray(values).view(np.uint8).reshape(count_rows(values.shape), -1)
    return Stored(TensorInfo(name, values.shape, dtype), lambda _, start, stop: rows[start:stop])


def floats(view: TensorView, start: int, stop: int) -> NDArray[np.float32]:
    dtype = {"F32": np.float32, "F16": np.float16}[view.dtype]
    return view.read_rows(start, stop).copy().view(dtype)


def check(view: TensorView, whole: NDArray[Any], start: int, stop: int) -> None:
    assert view.shape == whole.shape
    np.testing.assert_array_equal(
        floats(view, start, stop), whole.reshape(-1, whole.shape[-1])[start:stop]
    )


def ranges(rows: int) -> st.SearchStrategy[tuple[int, int]]:
    """Runs of rows that are not empty."""
    pairs = st.tuples(st.integers(0, rows), st.integers(0, rows))
    return pairs.filter(lambda pair: pair[0] < pair[1])


@given(ranges(15))
def test_a_stack_is_numpys(run: tuple[int, int]) -> None:
    members = [RNG.normal(size=(5, 4)).astype(np.float32) for _ in range(3)]
    check(Stack([stored(member) for member in members]), np.stack(members), *run)


@given(ranges(18))
def test_each_matrix_of_a_stack_is_transposed_by_itself(run: tuple[int, int]) -> None:
    values = RNG.normal(size=(3, 4, 6)).astype(np.float16)
    check(Transposed(stored(values)), values.swapaxes(1, 2), *run)


def test_a_matrix_is_transposed() -> None:
    values = RNG.normal(size=(4, 6)).astype(np.float32)
    check(Transposed(stored(values)), values.T, 1, 6)


@pytest.mark.parametrize("part", [0, 1])
@given(run=ranges(9))
def test_parts_in_turn_are_every_other_row(part: int, run: tuple[int, int]) -> None:
    values = RNG.normal(size=(3, 6, 4)).astype(np.float32)
    check(PartOfEach(stored(values), part, in_turn=True), values[:, part::2], *run)


@pytest.mark.parametrize("part", [0, 1])
@given(run=ranges(9))
def test_parts_behind_one_another_are_halves(part: int, run: tuple[int, int]) -> None:
    values = RNG.normal(size=(3, 6, 4)).astype(np.float32)
    half = values[:, 3 * part : 3 * part + 3]
    check(PartOfEach(stored(values), part, in_turn=False), half, *run)


@pytest.mark.parametrize("in_turn", [True, False])
@pytest.mark.parametrize("part", [0, 1])
def test_parts_of_rows(part: int, in_turn: bool) -> None:
    values = RNG.normal(size=(5, 8)).astype(np.float32)
    wanted = values[:, part::2] if in_turn else values[:, 4 * part : 4 * part + 4]
    check(PartOfRows(stored(values), part, in_turn), wanted, 1, 4)


def test_mxfp4_has_the_values_of_the_specification() -> None:
    """OCP MX 1.0: E2M1 elements, an E8M0 exponent with a bias of 127 for each 32."""
    numbers = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=np.float32)
    table = np.concatenate([numbers, -numbers])
    codes = RNG.integers(0, 16, size=(2, 3, 2, 32), dtype=np.uint8)
    exponents = RNG.integers(90, 160, size=(2, 3, 2), dtype=np.uint8)
    packed = codes[..., 0::2] | codes[..., 1::2] << 4
    view = Mxfp4(stored(packed), stored(exponents))
    scales = np.ldexp(np.float32(1), exponents.astype(np.int32) - 127)
    wanted = (table[codes] * scales[..., None]).reshape(6, 64)
    assert view.shape == (2, 3, 64)
    np.testing.assert_array_equal(dequantize(view.read_rows(1, 5), "MXFP4"), wanted[1:5])


@pytest.mark.parametrize(
    "make",
    [
        lambda: Stack([stored(np.ones((2, 3), np.float32)), stored(np.ones((2, 4), np.float32))]),
        lambda: Stack([stored(np.ones((2, 3), np.float32)), stored(np.ones((2, 3), np.float16))]),
        lambda: Transposed(stored(np.ones(3, np.float32))),
        lambda: Transposed(stored(np.ones((3, 4), np.uint8))),
        lambda: PartOfEach(stored(np.ones((2, 3, 4), np.float32)), 0, in_turn=True),
        lambda: PartOfEach(stored(np.ones((4, 4), np.float32)), 0, in_turn=True),
        lambda: PartOfRows(stored(np.ones((2, 3), np.float32)), 0, in_turn=True),
        lambda: Mxfp4(stored(np.ones((2, 1, 8), np.uint8)), stored(np.ones((2, 1), np.uint8))),
        lambda: Mxfp4(stored(np.ones((2, 2, 16), np.uint8)), stored(np.ones((2, 1), np.uint8))),
        lambda: Mxfp4(stored(np.ones((2, 1, 16), np.float32)), stored(np.ones((2, 1), np.uint8))),
    ],
)
def test_what_does_not_fit_is_corrupt(make: Any) -> None:
    with pytest.raises(CorruptCheckpointError):
        make()
