from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mrs.errors import UsageError
from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.matrix_formats import matrix_format
from mrs.export.graph.weight_file import WeightFile
from mrs.export.quantization.requested import resolve_quantization
from tests.export.gguf_files import TensorItem, quantize
from tests.export.graph.one_matrix import Part, row_sources


def stored_as(folder: Path, quant: str, dtype: str, columns: int, *, gathered: bool) -> str:
    weights = np.random.default_rng(0).normal(size=(4, columns)).astype(np.float32)
    tensor: TensorItem = weights if dtype == "F32" else quantize(weights, dtype)
    with WeightFile(folder / "model.onnx.data") as weight_file:
        _, records = matrix_format(quant).store(
            GraphBuilder(weight_file), "w", row_sources([Part(tensor)]), gathered=gathered
        )
    return records["part0"].stored_as


@pytest.mark.parametrize(
    ("dtype", "columns", "gathered", "expected"),
    [
        ("F32", 512, False, "int8-block32"),
        ("Q8_0", 512, False, "int8-block32"),
        ("Q4_0", 512, False, "int4-block32"),
        ("Q4_1", 512, False, "int4-block32+offsets"),
        ("Q4_1", 512, True, "int8-block32"),  # Rows with offsets cannot be looked up.
        ("Q4_1", 64, False, "int8-block32"),  # Too narrow for the sums.
        ("F32", 48, False, "float32"),  # No whole blocks.
        ("F32", 48, True, "float32"),
    ],
)
def test_q8_takes_the_smallest_format_that_serves(
    tmp_path: Path, dtype: str, columns: int, gathered: bool, expected: str
) -> None:
    assert stored_as(tmp_path, "q8", dtype, columns, gathered=gathered) == expected


@pytest.mark.parametrize("gathered", [True, False])
@pytest.mark.parametrize("dtype", ["F32", "Q4_1", "Q8_0"])
def test_fp32_is_float32_throughout(tmp_path: Path, dtype: str, gathered: bool) -> None:
    assert stored_as(tmp_path, "fp32", dtype, 512, gathered=gathered) == "float32"


@pytest.mark.parametrize(("asked", "resolved"), [("auto", "q8"), ("q8", "q8"), ("fp32", "fp32")])
def test_resolved_quantizations(asked: str, resolved: str) -> None:
    assert resolve_quantization(asked) == resolved


@pytest.mark.parametrize("name", ["q4", "", "Q8", "x" * 1000])
def test_an_unknown_quantization_is_named_beside_the_known_ones(name: str) -> None:
    with pytest.raises(UsageError, match=r"is unknown; known are fp32, q8, auto\.$") as caught:
        resolve_quantization(name)
    assert repr(name)[:40] in caught.value.message
    assert len(caught.value.message) < 120
