"""The feed-forward layer, with a gate (SwiGLU and kin: Shazeer, arXiv:2002.05202) or without."""

from __future__ import annotations

import onnx_ir as ir

from mrs.export.architectures.spec import Activation, MlpSpec
from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.row_source import RowSource
from mrs.export.graph.weights import Weights


def mlp(weights: Weights, spec: MlpSpec, hidden: int, block: str, x: ir.Value) -> ir.Value:
    """``down(act(gate(x)) * up(x))``, or ``down(act(up(x)))`` without a gate."""
    inner = _gated(weights, spec, hidden, block, x) if spec.gated else _plain(
        weights, spec, hidden, block, x
    )  # fmt: skip
    down = weights.rows(f"{block}.ffn_down", (hidden, spec.width))
    return weights.linear(f"{block}.ffn_down", inner, [down])


def activate(builder: GraphBuilder, activation: Activation, x: ir.Value, name: str) -> ir.Value:
    """The activation of ``x``."""
    match activation:
        case Activation.SILU:
            # QuickGelu with alpha 1 is x * sigmoid(x), in one pass over the row.
            return builder.contrib("QuickGelu", [x], name, {"alpha": 1.0})
        case Activation.QUICK_GELU:
            return builder.contrib("QuickGelu", [x], name, {"alpha": 1.702})
        case Activation.GELU:
            return builder.op("Gelu", [x], name)
        case Activation.GELU_TANH:
            return builder.op("Gelu", [x], name, {"approximate": "tanh"})
        case Activation.RELU:
            return builder.op("Relu", [x], name)
        case Activation.TANH:
            return builder.op("Tanh", [x], name)
        case Activation.RELU_SQUARED:
            positive = builder.op("Relu", [x], f"{name}.positive")
            return builder.op("Mul", [positive, positive], name)


def gate_and_up(
    weights: Weights, width: int, hidden: int, stem: str, suffix: str = ""
) -> list[RowSource]:
    """The rows of gate and up, below one another: as two matrices, or as one that holds both."""
    gate, up = f"{stem}_gate{suffix}", f"{stem}_up{suffix}"
    tensors = weights.checkpoint.tensors
    whole = tensors.get(f"{up}.weight")
    if f"{gate}.weight" not in tensors and whole is not None and whole.shape[0] == 2 * width:
        return [weights.rows(up, (2 * width, hidden))]
    return [weights.rows(name, (width, hidden)) for name in (gate, up)]


def gated_product(
    builder: GraphBuilder, activation: Activation, both: ir.Value, block: str
) -> ir.Value:
    """``act(gate) * up`` of the two halves of ``both``."""
    gate, up = ir.Value(name=f"{block}.gate"), ir.Value(name=f"{block}.up")
    halves = {"axis": -1, "num_outputs": 2}
    builder.op("Split", [both], f"{block}.split", halves, outputs=[gate, up])
    activated = activate(builder, activation, gate, f"{block}.activated")
    return builder.op("Mul", [activated, up], f"{block}.gated")


def _gated(weights: Weights, spec: MlpSpec, hidden: int, block: str, x: ir.Value) -> ir.Value:
    # One product for gate and up: fewer, larger matmuls keep the threads busy.
    parts = gate_and_up(weights, spec.width, hidden, f"{block}.ffn")
    both = weights.linear(f"{block}.ffn_gate_up", x, parts)
    return gated_product(weights.builder, spec.activation, both, block)


def _plain(weights: Weights, spec: MlpSpec, hidden: int, block: str, x: ir.Value) -> ir.Value:
    rows = weights.rows(f"{block}.ffn_up", (spec.width, hidden))
    up = weights.linear(f"{block}.ffn_up", x, [rows])
    return activate(weights.builder, spec.activation, up, f"{block}.activated")
