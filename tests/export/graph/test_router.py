"""Routers in ONNX Runtime against loops over tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from numpy.typing import NDArray

from mrs.errors import CorruptCheckpointError
from mrs.export.architectures.expert_spec import MoeSpec, RouterKind, RouterSpec
from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.matrix_formats import matrix_format
from mrs.export.graph.router import route
from mrs.export.graph.weight_file import WeightFile
from mrs.export.graph.weights import Weights
from tests.export.memory_checkpoint import MemoryCheckpoint

EXPERTS, HIDDEN = 12, 16
RNG = np.random.default_rng(0)
GATE = RNG.normal(size=(EXPERTS, HIDDEN)).astype(np.float32)
BIAS = RNG.normal(scale=0.3, size=EXPERTS).astype(np.float32)

Doubles = NDArray[np.float64]


def shares(
    router: RouterSpec, x: NDArray[np.float32], folder: Path, bias: str | None = None
) -> Doubles:
    """What each expert's result is multiplied with, ``[tokens, experts]``, by the graph."""
    stored = {"blk.0.ffn_gate_inp.weight": GATE} | ({} if bias is None else {bias: BIAS})
    spec = MoeSpec(experts=EXPERTS, width=8, router=router)
    given = ir.Value(
        name="x", shape=ir.Shape(("tokens", HIDDEN)), type=ir.TensorType(ir.DataType.FLOAT)
    )
    with WeightFile(folder / "data") as weight_file:
        weights = Weights(MemoryCheckpoint(stored), matrix_format("q8"), GraphBuilder(weight_file))
        found = route(weights, spec, "blk.0", given, HIDDEN)
        outputs = [found.choice] if found.shares is None else [found.choice, found.shares]
        outputs = list(dict.fromkeys(outputs))
        for output in outputs:
            output.type = ir.TensorType(ir.DataType.FLOAT)
        model = weights.builder.model("router", [given], outputs, "tests")
    ir.save(model, folder / "router.onnx")
    session = onnxruntime.InferenceSession(folder / "router.onnx")
    choice, *rest = (np.asarray(value, dtype=np.float64) for value in session.run(None, {"x": x}))
    weight = choice if found.shares is found.choice else rest[0] if rest else softmax(choice)
    return mixed(choice, weight, router.used, found.normalize)


def mixed(choice: Doubles, weight: Doubles, used: int, normalize: bool) -> Doubles:
    result = np.zeros_like(weight)
    for token, row in enumerate(choice):
        best = np.argsort(-row)[:used]
        result[token, best] = weight[token, best]
        if normalize:
            result[token] /= result[token].sum()
    return result


def softmax(x: Doubles) -> Doubles:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def logits(x: NDArray[np.float32]) -> Doubles:
    return x.astype(np.float64) @ GATE.T.astype(np.float64)


def tokens(count: int) -> NDArray[np.float32]:
    return RNG.normal(scale=0.5, size=(count, HIDDEN)).astype(np.float32)


def in_best_groups(score: Doubles, router: RouterSpec) -> Doubles:
    """Scores of one token; those of groups that were not chosen become nothing."""
    groups = score.reshape(router.groups, -1)
    worth = [np.sort(group)[-router.group_best :].sum() for group in groups]
    kept = np.full_like(groups, -np.inf)
    for group in np.argsort(worth)[-router.groups_used :]:
        kept[group] = groups[group]
    return kept.reshape(-1)


many = pytest.mark.parametrize("count", [1, 64])


@many
@pytest.mark.parametrize("normalize", [True, False])
def test_softmax(count: int, normalize: bool, tmp_path: Path) -> None:
    x = tokens(count)
    wanted = mixed(softmax(logits(x)), softmax(logits(x)), 3, normalize)
    found = shares(RouterSpec(RouterKind.SOFTMAX, 3, normalize), x, tmp_path)
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_the_bias_of_the_router_counts_for_choice_and_shares(tmp_path: Path) -> None:
    x = tokens(64)
    probabilities = softmax(logits(x) + BIAS)
    found = shares(
        RouterSpec(RouterKind.SOFTMAX, 2, True), x, tmp_path, bias="blk.0.ffn_gate_inp.bias"
    )
    np.testing.assert_allclose(found, mixed(probabilities, probabilities, 2, True), atol=1e-6)


@many
def test_softmax_within_the_best_groups(count: int, tmp_path: Path) -> None:
    router = RouterSpec(RouterKind.SOFTMAX, 3, False, groups=4, groups_used=2)
    x = tokens(count)
    probabilities = softmax(logits(x))
    choice = np.stack([in_best_groups(row, router) for row in probabilities])
    found = shares(router, x, tmp_path)
    np.testing.assert_allclose(found, mixed(choice, probabilities, 3, False), atol=1e-6)


@many
@pytest.mark.parametrize("normalize", [True, False])
def test_a_correction_counts_for_the_choice_alone(
    count: int, normalize: bool, tmp_path: Path
) -> None:
    router = RouterSpec(RouterKind.SIGMOID, 3, normalize, groups=4, groups_used=2, group_best=2)
    x = tokens(count)
    scores = 1 / (1 + np.exp(-logits(x)))
    choice = np.stack([in_best_groups(row, router) for row in scores + BIAS])
    found = shares(router, x, tmp_path, bias="blk.0.exp_probs_b.bias")
    np.testing.assert_allclose(found, mixed(choice, scores, 3, normalize), atol=1e-6)


@many
@pytest.mark.parametrize("jitter", [0.01, 0.3])
def test_the_sparse_mixer_takes_two_in_turn(count: int, jitter: float, tmp_path: Path) -> None:
    """Against the definition in arXiv:2409.12136, as the model's own code has it."""
    x = tokens(count)
    wanted = np.zeros((count, EXPERTS))
    for token, scores in enumerate(logits(x)):
        left = scores.copy()
        for _ in range(2):
            best = int(left.argmax())
            far = (left[best] - scores) / np.maximum(np.abs(scores), left[best]) > 2 * jitter
            wanted[token, best] = softmax(np.where(far, -np.inf, left))[best]
            left[best] = -np.inf
    found = shares(RouterSpec(RouterKind.SPARSE_MIXER, 2, False, jitter=jitter), x, tmp_path)
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_a_router_of_another_size_is_corrupt(tmp_path: Path) -> None:
    given = ir.Value(name="x")
    stored = {"blk.0.ffn_gate_inp.weight": GATE[:-1]}
    with WeightFile(tmp_path / "data") as weight_file:
        weights = Weights(MemoryCheckpoint(stored), matrix_format("q8"), GraphBuilder(weight_file))
        spec = MoeSpec(EXPERTS, 8, RouterSpec(RouterKind.SOFTMAX, 2, True))
        with pytest.raises(CorruptCheckpointError, match=r"ffn_gate_inp.*\[11, 16\]"):
            route(weights, spec, "blk.0", given, HIDDEN)
