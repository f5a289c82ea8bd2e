"""The gated MLP: SwiGLU (Shazeer, arXiv:2002.05202)."""

from __future__ import annotations

import onnx_ir as ir

from mrs.export.architectures.spec import DecoderSpec
from mrs.export.graph.weights import Weights


def gated_mlp(weights: Weights, spec: DecoderSpec, block: str, x: ir.Value) -> ir.Value:
    """``down(silu(gate(x)) * up(x))``."""
    width, hidden, builder = spec.intermediate_size, spec.hidden_size, weights.builder
    # One product for gate and up: fewer, larger matmuls keep the threads busy.
    both = weights.linear(
        f"{block}.ffn_gate_up",
        x,
        [weights.rows(f"{block}.ffn_{part}", (width, hidden)) for part in ("gate", "up")],
    )
    gate, up = ir.Value(name=f"{block}.gate"), ir.Value(name=f"{block}.up")
    halves = {"axis": -1, "num_outputs": 2}
    builder.op("Split", [both], f"{block}.split", halves, outputs=[gate, up])
    # QuickGelu with alpha 1 is x * sigmoid(x), in one pass over the row.
    activated = builder.contrib("QuickGelu", [gate], f"{block}.silu", {"alpha": 1.0})
    product = builder.op("Mul", [activated, up], f"{block}.gated")
    down = weights.rows(f"{block}.ffn_down", (hidden, width))
    return weights.linear(f"{block}.ffn_down", product, [down])
