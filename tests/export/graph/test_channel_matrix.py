from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mrs.export.graph.matrix_choices import w8a8
from mrs.export.quantization.hadamard import group_size, hadamard
from tests.export.gguf_files import random_blocks
from tests.export.graph.activations import near_int8
from tests.export.graph.one_matrix import Part, gather, multiply, records, stored_by, values

RNG = np.random.default_rng(0)
PARTS = [
    Part(RNG.normal(0, 0.05, (40, 512)).astype(np.float32), RNG.permutation(40)),
    Part(random_blocks("Q6_K", (24, 512))),
]
STORE = stored_by(w8a8)


def exact(rows: int, columns: int, seed: int) -> np.ndarray:
    """Integers -127 to 127 with 127 in each row: int8 holds them at a scale of 1."""
    found = np.random.default_rng(seed).integers(-127, 128, (rows, columns)).astype(np.float32)
    found[:, 0] = 127
    return found


@pytest.mark.parametrize("columns", [7, 24, 96, 128])
def test_what_is_integers_once_it_is_turned_is_multiplied_exactly(
    tmp_path: Path, columns: int
) -> None:
    size = group_size(columns)
    turn = np.kron(np.eye(columns // size), hadamard(size)).astype(np.float32)
    codes, steps = exact(40, columns, 1), exact(5, columns, 0)
    x, weights = steps @ turn / size, codes @ turn
    got = multiply(tmp_path, STORE, [Part(weights)], x)
    np.testing.assert_allclose(got, steps.astype(np.float64) @ codes.T, rtol=1e-5)


def test_columns_that_stand_out_leave_the_others_their_steps(tmp_path: Path) -> None:
    """Rounded as it is, this row would have 3 steps on either side of 0 for all but one column."""
    x = near_int8((4, 512))
    x[:, 70] = 40 * np.abs(x).max()
    weights = np.random.default_rng(3).normal(size=(64, 512)).astype(np.float32)
    weights[:, 70] = 0
    got = multiply(tmp_path, STORE, [Part(weights)], x)
    step = np.abs(x).max(axis=1, keepdims=True) / 127
    unturned = np.rint(x / step) * step @ weights.T
    expected = x @ weights.T
    error, before = (np.linalg.norm(found - expected) for found in (got, unturned))
    assert error < 0.25 * before


@pytest.mark.parametrize("shape", [(7,), (2, 5), (1, 1)], ids=str)
def test_products_are_near_those_of_the_weights(tmp_path: Path, shape: tuple[int, ...]) -> None:
    x = near_int8((*shape, 512))
    got = multiply(tmp_path, STORE, PARTS, x)
    expected = x @ values(PARTS).T
    assert got.shape == expected.shape
    assert np.linalg.norm(got - expected) < 0.02 * np.linalg.norm(expected)


def test_a_row_does_not_depend_on_its_neighbours(tmp_path: Path) -> None:
    x = near_int8((6, 512))
    x[1] *= 1e4
    (tmp_path / "all").mkdir()
    (tmp_path / "one").mkdir()
    together = multiply(tmp_path / "all", STORE, PARTS, x)
    alone = multiply(tmp_path / "one", STORE, PARTS, x[:1])
    np.testing.assert_array_equal(together[:1], alone)


def test_rows_of_zeros_give_zeros(tmp_path: Path) -> None:
    x = np.zeros((3, 512), dtype=np.float32)
    assert not multiply(tmp_path, STORE, PARTS, x).any()


def test_any_width_will_do(tmp_path: Path) -> None:
    part = Part(RNG.normal(size=(5, 7)).astype(np.float32))
    x = near_int8((2, 7))
    got = multiply(tmp_path, STORE, [part], x)
    assert np.linalg.norm(got - x @ part.values.T) < 0.03 * np.linalg.norm(x @ part.values.T)


def test_rows_cannot_be_looked_up(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="looked up"):
        gather(tmp_path, STORE, PARTS, np.zeros((1, 1), dtype=np.int64))


def test_an_embedding_has_blocks(tmp_path: Path) -> None:
    (record,) = records(tmp_path, stored_by(w8a8, gathered=True), [PARTS[1]])
    assert record.stored_as == "int8-block16"


def test_records_name_the_format(tmp_path: Path) -> None:
    floats, blocks = records(tmp_path, STORE, PARTS)
    assert (floats.source_type, floats.stored_as, floats.exact) == ("F32", "int8-channel", False)
    assert (blocks.source_type, blocks.exact) == ("Q6_K", False)
