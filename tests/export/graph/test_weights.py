from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from mrs.errors import CorruptCheckpointError
from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.matrix_formats import matrix_format
from mrs.export.graph.weights import Weights
from mrs.model_repo.lock import TensorRecord
from tests.export.graph.decoders import building
from tests.export.graph.one_matrix import run
from tests.export.memory_checkpoint import MemoryCheckpoint

RNG = np.random.default_rng(0)
A, B = (RNG.normal(size=(rows, 8)).astype(np.float32) for rows in (3, 4))
B_BIAS = np.array([10, 20, 30, 40], dtype=np.float32)
ORDER = np.array([2, 0, 3, 1])
X = RNG.normal(size=(1, 5, 8)).astype(np.float32)


def linear(folder: Path, checkpoint: MemoryCheckpoint) -> NDArray[np.float32]:
    """``x`` times ``a`` above ``b``, the rows of ``b`` in another order."""

    def make(builder: GraphBuilder, x: ir.Value) -> ir.Value:
        weights = Weights(checkpoint, matrix_format("fp32"), builder)
        parts = [weights.rows("a", (3, 8)), replace(weights.rows("b", (4, 8)), order=ORDER)]
        return weights.linear("ab", x, parts)

    return run(folder, make, X)


def test_without_biases_a_product_is_all(tmp_path: Path) -> None:
    got = linear(tmp_path, MemoryCheckpoint({"a.weight": A, "b.weight": B}))
    np.testing.assert_allclose(got, X @ np.concatenate([A, B[ORDER]]).T, rtol=1e-5, atol=1e-6)


def test_a_bias_follows_the_order_of_its_rows_and_parts_may_have_none(tmp_path: Path) -> None:
    got = linear(tmp_path, MemoryCheckpoint({"a.weight": A, "b.weight": B, "b.bias": B_BIAS}))
    expected = X @ np.concatenate([A, B[ORDER]]).T + [0, 0, 0, 30, 10, 40, 20]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_a_bias_of_another_length_is_refused(tmp_path: Path) -> None:
    checkpoint = MemoryCheckpoint({"a.weight": A, "b.weight": B, "b.bias": B_BIAS[:3]})
    with pytest.raises(CorruptCheckpointError, match=r"'b\.bias' has shape \[3\]"):
        linear(tmp_path, checkpoint)


def test_vectors_are_recorded(tmp_path: Path) -> None:
    with building(MemoryCheckpoint({"norm": B_BIAS.astype(np.float16)}), tmp_path, "q8") as weights:
        assert weights.vector("norm", 4).tolist() == [10, 20, 30, 40]
    record = TensorRecord(source_type="F16", stored_as="float32", exact=True)
    assert weights.records == {"norm": record}
