from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mrs.export.graph.matrix_choices import fp32
from tests.export.gguf_files import random_blocks
from tests.export.graph.activations import near_int8
from tests.export.graph.one_matrix import Part, gather, multiply, records, stored_by, values

store_float32 = stored_by(fp32)

HALF = np.random.default_rng(0).normal(size=(24, 256)).astype(np.float16)
PARTS = [
    Part(random_blocks("Q4_K", (16, 256)), np.random.default_rng(1).permutation(16)),
    Part(HALF),
]


@pytest.mark.parametrize("shape", [(7,), (2, 5)], ids=str)
def test_products_are_those_of_the_dequantized_weights(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    x = near_int8((*shape, 256))
    got = multiply(tmp_path, store_float32, PARTS, x)
    expected = x.astype(np.float64) @ values(PARTS).T
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6 * np.abs(expected).sum())
    assert got.shape == expected.shape


def test_rows_are_looked_up_exactly(tmp_path: Path) -> None:
    ids = np.array([[0, 39], [15, 0]], dtype=np.int64)
    got = gather(tmp_path, store_float32, PARTS, ids)
    np.testing.assert_array_equal(got, values(PARTS)[ids])


def test_any_width_will_do(tmp_path: Path) -> None:
    part = Part(np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32))
    x = near_int8((2, 7))
    np.testing.assert_allclose(
        multiply(tmp_path, store_float32, [part], x), x @ part.values.T, rtol=1e-5, atol=1e-6
    )


def test_every_value_is_exact(tmp_path: Path) -> None:
    blocks, half = records(tmp_path, store_float32, PARTS)
    assert (blocks.source_type, blocks.stored_as, blocks.exact) == ("Q4_K", "float32", True)
    assert (half.source_type, half.stored_as, half.exact) == ("F16", "float32", True)
