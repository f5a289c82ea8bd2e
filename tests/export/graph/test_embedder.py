"""The contract of the embedding graph, and what its parts compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from numpy.typing import NDArray

from mrs.errors import UnsupportedArchitectureError
from mrs.export.architectures.embedding_spec import EmbeddingSpec, Pooling
from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.embedder import build_embedder
from mrs.export.graph.matrix_formats import matrix_format
from mrs.export.graph.pooling import pool
from mrs.export.graph.weight_file import WeightFile
from mrs.export.graph.weights import Weights
from mrs.export.opened_model import open_model
from tests.export.graph.decoders import value_infos
from tests.reference.embedding_cases import CASES
from tests.reference.tiny_embedding import TinyEmbedding, write_reference_model

BY_NAME = {case.name: case for case in CASES}
INT32, INT64, FLOAT = onnx.TensorProto.INT32, onnx.TensorProto.INT64, onnx.TensorProto.FLOAT


def build(case: TinyEmbedding, folder: Path, quant: str = "fp32") -> Path:
    folder.mkdir(exist_ok=True)
    model = open_model(write_reference_model(case, folder / "model"))
    spec = model.spec()
    assert isinstance(spec, EmbeddingSpec)
    with WeightFile(folder / "model.onnx.data") as weight_file:
        weights = Weights(model.checkpoint, matrix_format(quant), GraphBuilder(weight_file))
        graph = build_embedder(spec, weights)
    ir.save(graph, folder / "model.onnx")
    return folder / "model.onnx"


@pytest.mark.parametrize("name", ["bert-mean", "qwen3-last", "embeddinggemma-mean"])
def test_inputs_and_outputs(name: str, tmp_path: Path) -> None:
    graph = onnx.load(build(BY_NAME[name], tmp_path), load_external_data=False).graph
    assert value_infos(graph.input) == [
        ("input_ids", INT64, ["batch", "sequence"]),
        ("sequence_lengths", INT32, ["batch"]),
    ]
    size = BY_NAME[name].config["hidden_size"]
    assert value_infos(graph.output) == [("embeddings", FLOAT, ["batch", size])]


@pytest.mark.parametrize("name", ["bert-mean", "embeddinggemma"])
def test_equal_input_gives_equal_bytes(name: str, tmp_path: Path) -> None:
    first, second = (build(BY_NAME[name], tmp_path / which) for which in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()
    assert first.with_suffix(".onnx.data").read_bytes() == (
        second.with_suffix(".onnx.data").read_bytes()
    )


@pytest.mark.parametrize(("quant", "least"), [("q8", 0.99), ("w8a8", 0.99), ("q4", 0.7)])
def test_every_quantization(quant: str, least: float, tmp_path: Path) -> None:
    exact, rounded = (
        run(build(BY_NAME["embeddinggemma"], tmp_path / which, which)) for which in ("fp32", quant)
    )
    cosines = (exact * rounded).sum(axis=1)
    assert least < cosines.min() < 1 - 1e-7


def test_a_head_for_something_else_is_refused(tmp_path: Path) -> None:
    case = BY_NAME["bert-mean"]
    folder = write_reference_model(case, tmp_path / "model")
    from safetensors.numpy import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    tensors["classifier.weight"] = np.zeros((2, 64), np.float32)
    save_file(tensors, folder / "model.safetensors")
    model = open_model(folder)
    spec = model.spec()
    assert isinstance(spec, EmbeddingSpec)
    with WeightFile(tmp_path / "data") as weight_file:
        weights = Weights(model.checkpoint, matrix_format("fp32"), GraphBuilder(weight_file))
        with pytest.raises(UnsupportedArchitectureError, match=r"classifier\.weight"):
            build_embedder(spec, weights)


HIDDEN = np.arange(24, dtype=np.float32).reshape(2, 4, 3) ** 2
LENGTHS = np.array([4, 2], dtype=np.int32)


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        (Pooling.CLS, [HIDDEN[0, 0], HIDDEN[1, 0]]),
        (Pooling.LAST, [HIDDEN[0, 3], HIDDEN[1, 1]]),
        (Pooling.MEAN, [HIDDEN[0].mean(axis=0), HIDDEN[1, :2].mean(axis=0)]),
        (Pooling.MAX, [-HIDDEN[0, 0], -HIDDEN[1, 0]]),
    ],
)
def test_pooling_ignores_whatever_the_padding_holds(
    pooling: Pooling, expected: list[NDArray[np.float32]], tmp_path: Path
) -> None:
    hidden = HIDDEN.copy() if pooling is not Pooling.MAX else -HIDDEN
    hidden[1, 2:] = np.nan
    found = pooled(pooling, hidden, tmp_path)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def pooled(pooling: Pooling, hidden: NDArray[np.float32], folder: Path) -> NDArray[np.float32]:
    with WeightFile(folder / "data") as weight_file:
        builder = GraphBuilder(weight_file)
        inputs = [
            value("input_ids", ir.DataType.INT64, "batch", "sequence"),
            value("lengths", ir.DataType.INT32, "batch"),
            value("hidden", ir.DataType.FLOAT, "batch", "sequence", 3),
        ]
        result = pool(builder, pooling, inputs[2], inputs[0], inputs[1])
        result.type, result.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(("batch", 3))
        model = builder.model("pooling", inputs, [result], producer="test")
    ir.save(model, folder / "model.onnx")
    feeds = {
        "input_ids": np.zeros((2, 4), dtype=np.int64),
        "lengths": LENGTHS,
        "hidden": hidden,
    }
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    found: NDArray[np.float32] = session.run(None, feeds)[0]
    return found


def value(name: str, dtype: ir.DataType, *shape: int | str) -> ir.Value:
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(dtype))


def run(path: Path) -> NDArray[np.float32]:
    feeds = {
        "input_ids": np.arange(20, dtype=np.int64).reshape(2, 10) + 3,
        "sequence_lengths": np.array([10, 6], dtype=np.int32),
    }
    found: NDArray[np.float32] = onnxruntime.InferenceSession(path).run(None, feeds)[0]
    return found
