"""Stacked matrices with rows for columns."""

from __future__ import annotations

import numpy as np
import pytest

from mrs.errors import CorruptCheckpointError
from mrs.export.graph.row_source import expert_rows
from mrs.export.graph.turned_rows import turned_rows
from tests.export.gguf_files import StoredTensor, TensorItem, dequantize, random_blocks
from tests.export.memory_checkpoint import MemoryCheckpoint


def rows_of(
    tensor: TensorItem, shape: tuple[int, int, int]
) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    source = expert_rows(MemoryCheckpoint({"w": tensor}), "w", shape)
    turned = turned_rows(source, shape[0])
    assert (turned.rows, turned.columns) == (shape[0] * shape[2], shape[1])
    return np.concatenate(list(turned.float_chunks()))


@pytest.mark.parametrize("dtype", ["Q8_0", "Q4_K", "F16"])
def test_each_matrix_is_turned_by_itself(dtype: str) -> None:
    shape = (3, 20, 256)
    tensor: TensorItem
    if dtype == "F16":
        tensor = np.random.default_rng(0).normal(size=shape).astype(np.float16)
    else:
        tensor = random_blocks(dtype, shape, 0)
    values = dequantize(tensor) if isinstance(tensor, StoredTensor) else tensor.astype(np.float32)
    np.testing.assert_array_equal(rows_of(tensor, shape), values.swapaxes(1, 2).reshape(-1, 20))


def test_chunks_may_end_within_a_matrix() -> None:
    shape = (2, 4096, 400)  # A chunk has 256 rows.
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    np.testing.assert_array_equal(rows_of(values, shape), values.swapaxes(1, 2).reshape(-1, 4096))


def test_infinity_is_found() -> None:
    values = np.zeros((2, 4, 8), dtype=np.float32)
    values[1, 2, 3] = np.inf
    with pytest.raises(CorruptCheckpointError, match="NaN or infinity"):
        rows_of(values, (2, 4, 8))
