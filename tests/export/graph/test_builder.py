from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mrs.export.graph.builder import GraphBuilder, int64s
from mrs.export.graph.weight_file import WeightFile


def test_a_constant_is_made_once(tmp_path: Path) -> None:
    with WeightFile(tmp_path / "w") as file:
        builder = GraphBuilder(file)
        assert builder.constant("axis", int64s(-1)) is builder.constant("axis", int64s(-1))
        assert file.size == 0


def test_a_finished_model(tmp_path: Path) -> None:
    """Opset 23 is the first with RMSNormalization, IR version 11 the first with opset 23."""
    with WeightFile(tmp_path / "w") as file:
        builder = GraphBuilder(file)
        x = ir.Value(name="x", shape=ir.Shape(["n"]), type=ir.TensorType(ir.DataType.FLOAT))
        two = builder.weight("two", np.full(1, 2, dtype=np.float32))
        one = builder.constant("one", np.ones(1, dtype=np.float32))
        y = builder.op("Mul", [builder.op("Add", [x, one], "sum"), two], "y")
        y.type, y.shape = x.type, x.shape
        model = builder.model("g", [x], [y], producer="mrs")
    ir.save(model, tmp_path / "model.onnx")
    onnx.checker.check_model(tmp_path / "model.onnx", full_check=True)
    read = onnx.load(tmp_path / "model.onnx")
    assert [(entry.domain, entry.version) for entry in read.opset_import] == [
        ("", 23),
        ("com.microsoft", 1),
    ]
    assert read.ir_version == 11
    assert [tensor.name for tensor in read.graph.initializer] == ["one", "two"]
    assert [node.name for node in read.graph.node] == ["sum", "y"]


def test_equal_numbers_of_two_types_are_not_one_constant(tmp_path: Path) -> None:
    with WeightFile(tmp_path / "data") as weight_file:
        builder = GraphBuilder(weight_file)
        whole = builder.constant("zero", np.array(0, dtype=np.int64))
        assert builder.constant("zero", np.array(0, dtype=np.int64)) is whole
        with pytest.raises(ValueError, match="zero"):
            builder.constant("zero", np.array(0, dtype=np.float32))
