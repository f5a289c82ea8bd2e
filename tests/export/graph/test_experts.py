"""Mixtures of experts in ONNX Runtime against a loop over experts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from numpy.typing import NDArray

from mrs.errors import CorruptCheckpointError
from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.matrix_formats import MatrixFormats
from mrs.export.graph.weight_file import WeightFile
from mrs.export.graph.weights import Weights
from mrs.export.quantization.requested import parse_quantization
from tests.export.gguf_files import StoredTensor as Stored
from tests.export.gguf_files import TensorItem, dequantize, random_blocks
from tests.export.memory_checkpoint import MemoryCheckpoint

Floats = NDArray[np.float32]

EXPERTS, TOP_K, HIDDEN, WIDTH, TOKENS = 5, 2, 256, 512, 7
RNG = np.random.default_rng(0)
X = RNG.normal(size=(TOKENS, HIDDEN)).astype(np.float32)
ROUTER = RNG.normal(size=(TOKENS, EXPERTS)).astype(np.float32)
MIXING = RNG.uniform(0.1, 1, size=(TOKENS, EXPERTS)).astype(np.float32)


def tensors(
    gate: str = "F32", up: str = "F32", down: str = "F32", *, bias: bool = False
) -> dict[str, TensorItem]:
    shapes = {"gate": (WIDTH, HIDDEN), "up": (WIDTH, HIDDEN), "down": (HIDDEN, WIDTH)}
    found: dict[str, TensorItem] = {}
    for seed, (name, dtype) in enumerate({"gate": gate, "up": up, "down": down}.items()):
        rng = np.random.default_rng(seed)
        shape = (EXPERTS, *shapes[name])
        if dtype == "F32":
            found[f"{name}.weight"] = rng.normal(0, 0.06, shape).astype(np.float32)
        else:
            found[f"{name}.weight"] = random_blocks(dtype, shape, seed)
        if bias:
            found[f"{name}.bias"] = rng.normal(size=shape[:2]).astype(np.float32)
    return found


def floats(item: TensorItem) -> Floats:
    return dequantize(item) if isinstance(item, Stored) else item.astype(np.float32)


def expected(
    given: Mapping[str, TensorItem], *, normalize: bool, mixing: Floats | None = None
) -> NDArray[np.float64]:
    """Every token through its chosen experts, one by one, in float64."""
    weights = {name: floats(item).astype(np.float64) for name, item in given.items()}
    bias = {name: weights.get(f"{name}.bias") for name in ("gate", "up", "down")}

    def project(name: str, expert: int, value: NDArray[np.float64]) -> NDArray[np.float64]:
        product: NDArray[np.float64] = weights[f"{name}.weight"][expert] @ value
        found = bias[name]
        return product if found is None else product + found[expert]

    softmax = np.exp(ROUTER) / np.exp(ROUTER).sum(axis=-1, keepdims=True)
    shares = softmax if mixing is None else mixing
    result = np.zeros((TOKENS, HIDDEN))
    for token in range(TOKENS):
        chosen = np.argsort(-ROUTER[token])[:TOP_K]
        share = shares[token, chosen]
        share = share / share.sum() if normalize else share
        for expert, part in zip(chosen, share, strict=True):
            gate = project("gate", expert, X[token])
            inner = gate / (1 + np.exp(-gate)) * project("up", expert, X[token])
            result[token] += part * project("down", expert, inner)
    return result


def mixed(
    folder: Path,
    given: Mapping[str, TensorItem],
    quant: str,
    *,
    normalize: bool = True,
    mixing: bool = False,
    one_tensor: bool = False,
) -> tuple[Floats, Weights]:
    feeds: dict[str, NDArray[Any]] = {"x": X, "router": ROUTER}
    if mixing:
        feeds["mixing"] = MIXING
    inputs = [
        ir.Value(name=name, shape=ir.Shape(value.shape), type=ir.TensorType(ir.DataType.FLOAT))
        for name, value in feeds.items()
    ]
    with WeightFile(folder / "model.onnx.data") as weight_file:
        formats = MatrixFormats(parse_quantization(quant))
        weights = Weights(MemoryCheckpoint(given), formats, GraphBuilder(weight_file))
        inner = [
            weights.expert_rows(n, (EXPERTS, WIDTH, HIDDEN))
            for n in ("gate", "up")[one_tensor * 2 :]
        ]
        if one_tensor:
            both = weights.expert_rows("both", (EXPERTS, 2 * WIDTH, HIDDEN))
            rows = np.arange(both.rows).reshape(EXPERTS, 2, WIDTH)
            orders = [rows[:, half].reshape(-1) for half in range(2)]
            inner = [dataclasses.replace(both, rows=len(o), order=o) for o in orders]
        down = weights.expert_rows("down", (EXPERTS, HIDDEN, WIDTH))
        experts = weights.experts("exps", EXPERTS, inner, down)
        y = experts.mix(
            weights.builder,
            inputs[0],
            inputs[1],
            "y",
            TOP_K,
            normalize=normalize,
            mixing=inputs[2] if mixing else None,
        )
        y.type = ir.TensorType(ir.DataType.FLOAT)
        model = weights.builder.model("experts", inputs, [y], producer="test")
    ir.save(model, folder / "model.onnx")
    return onnxruntime.InferenceSession(folder / "model.onnx").run(None, feeds)[0], weights


def error(got: Floats, wanted: NDArray[np.float64]) -> float:
    return float(np.linalg.norm(got - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("mixing", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
def test_float32_is_the_loop(tmp_path: Path, normalize: bool, mixing: bool, bias: bool) -> None:
    given = tensors(bias=bias)
    got, _ = mixed(tmp_path, given, "fp32", normalize=normalize, mixing=mixing)
    wanted = expected(given, normalize=normalize, mixing=MIXING if mixing else None)
    assert error(got, wanted) < 1e-5


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("mixing", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
def test_8_bits_are_near_the_loop(
    tmp_path: Path, normalize: bool, mixing: bool, bias: bool
) -> None:
    given = tensors(bias=bias)
    got, weights = mixed(tmp_path, given, "q8", normalize=normalize, mixing=mixing)
    wanted = expected(given, normalize=normalize, mixing=MIXING if mixing else None)
    assert error(got, wanted) < 0.015
    assert weights.records["gate.weight"].stored_as == "int8-block32"


@pytest.mark.parametrize(
    ("types", "kept"),
    [
        (("Q4_0", "Q4_0", "Q4_0"), ("int4-block32", "int4-block32")),
        (("Q4_0", "Q4_0", "Q6_K"), ("int4-block32", "int8-block16")),
        (("Q4_0", "Q8_0", "Q6_K"), ("int4-block32", "int8-block16")),
        (("Q3_K", "Q3_K", "TQ2_0"), ("int4-block16", "int2-block128")),
        (("MXFP4", "MXFP4", "MXFP4"), ("int8-block32", "int8-block32")),
    ],
)
def test_experts_keep_the_codes_of_the_checkpoint(
    tmp_path: Path, types: tuple[str, str, str], kept: tuple[str, str]
) -> None:
    """The error is that of 8-bit activations alone."""
    given = tensors(*types)
    got, weights = mixed(tmp_path, given, "keep")
    assert error(got, expected(given, normalize=True)) < 0.02
    records = [weights.records[f"{name}.weight"] for name in ("gate", "down")]
    assert tuple(record.stored_as for record in records) == kept
    assert all(record.exact for record in records)


def test_kept_offsets_are_float32(tmp_path: Path) -> None:
    """QMoE has no place for them; --quant keep keeps its promise."""
    given = tensors("Q4_K", "Q4_K", "Q6_K")
    got, weights = mixed(tmp_path, given, "keep")
    assert error(got, expected(given, normalize=True)) < 1e-5
    assert {record.stored_as for record in weights.records.values()} == {"float32"}


def test_auto_rounds_blocks_with_offsets_to_8_bits(tmp_path: Path) -> None:
    given = tensors("Q4_K", "Q4_K", "Q6_K")
    got, weights = mixed(tmp_path, given, "auto")
    assert error(got, expected(given, normalize=True)) < 0.02
    assert weights.records["gate.weight"].stored_as == "int8-block32"
    assert weights.records["down.weight"].stored_as == "int8-block16"


@pytest.mark.parametrize("quant", ["fp32", "q8"])
def test_gate_and_up_may_be_one_tensor(tmp_path: Path, quant: str) -> None:
    given = tensors()
    both = np.concatenate([floats(given.pop(f"{name}.weight")) for name in ("gate", "up")], axis=1)
    got, weights = mixed(tmp_path, {**given, "both.weight": both}, quant, one_tensor=True)
    assert error(got, expected(tensors(), normalize=True)) < 0.015
    assert weights.records.keys() == {"both.weight", "down.weight"}


def test_experts_of_another_shape_are_refused(tmp_path: Path) -> None:
    given = tensors()
    given["up.weight"] = floats(given["up.weight"])[:, :-1]
    with pytest.raises(CorruptCheckpointError, match=r"'up\.weight' has shape \[5, 511, 256\]"):
        mixed(tmp_path, given, "fp32")
