"""A mixture of experts as the feed-forward part of a block."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from mrs.export.architectures.expert_spec import MoeSpec
from mrs.export.architectures.spec import Activation
from mrs.export.graph.builder import int64s
from mrs.export.graph.mlp import gate_and_up, gated_product
from mrs.export.graph.router import route
from mrs.export.graph.weights import Weights


def mixture(weights: Weights, spec: MoeSpec, hidden: int, block: str, x: ir.Value) -> ir.Value:
    """What the chosen experts, and the one that always works, make of ``x``.

    Args:
        weights: of the checkpoint.
        spec: of the mixture.
        hidden: width of ``x``.
        block: prefix of the tensors.
        x: float32 ``[batch, sequence, hidden]``.
    """
    made = _chosen(weights, spec, hidden, block, x)
    if spec.shared_width is None:
        return made
    shared = _shared(weights, spec, spec.shared_width, hidden, block, x)
    return weights.builder.op("Add", [made, shared], f"{block}.experts_and_shared")


def _chosen(weights: Weights, spec: MoeSpec, hidden: int, block: str, x: ir.Value) -> ir.Value:
    builder, stem = weights.builder, f"{block}.ffn_exps"
    flat = builder.op(
        "Reshape", [x, builder.constant("flat_shape", int64s(-1, hidden))], f"{stem}.tokens"
    )
    routing = route(weights, spec, block, flat, hidden)
    inner = [
        weights.expert_rows(f"{block}.ffn_{part}_exps", (spec.experts, spec.width, hidden))
        for part in ("gate", "up")
    ]
    down = weights.expert_rows(f"{block}.ffn_down_exps", (spec.experts, hidden, spec.width))
    mixed = weights.experts(stem, spec.experts, inner, down).mix(
        builder,
        flat,
        routing.choice,
        stem,
        spec.router.used,
        normalize=routing.normalize,
        mixing=routing.shares,
        attributes=_activation(spec),
    )
    if spec.router.scale != 1.0:
        scale = np.array(spec.router.scale, dtype=np.float32)
        factor = builder.constant(f"experts_scale_{spec.router.scale!r}", scale)
        mixed = builder.op("Mul", [mixed, factor], f"{stem}.scaled")
    shape = builder.op("Shape", [x], f"{stem}.shape")
    return builder.op("Reshape", [mixed, shape], f"{stem}.placed")


def _activation(spec: MoeSpec) -> dict[str, Any]:
    found = {"activation_alpha": spec.alpha, "activation_beta": spec.shift}
    return found if spec.clamp is None else {**found, "swiglu_limit": spec.clamp}


def _shared(
    weights: Weights, spec: MoeSpec, width: int, hidden: int, block: str, x: ir.Value
) -> ir.Value:
    """The expert that always works."""
    builder, stem = weights.builder, f"{block}.ffn_shexp"
    both = weights.linear(
        f"{stem}_gate_up", x, gate_and_up(weights, width, hidden, f"{block}.ffn", "_shexp")
    )
    inner = gated_product(builder, Activation.SILU, both, stem)
    down = weights.rows(f"{block}.ffn_down_shexp", (hidden, width))
    made = weights.linear(f"{stem}_down", inner, [down])
    if not spec.shared_gate:
        return made
    gate = _gate_vector(weights, f"{block}.ffn_gate_inp_shexp.weight", hidden)
    logit = builder.contrib(
        "FusedMatMul", [x, builder.weight(f"{stem}_own_gate.weight", gate)], f"{stem}_own_gate",
        {"transB": 1},
    )  # fmt: skip
    share = builder.op("Sigmoid", [logit], f"{stem}_share")
    return builder.op("Mul", [made, share], f"{stem}_gated")


def _gate_vector(weights: Weights, name: str, hidden: int) -> np.ndarray[Any, Any]:
    """One row; GGUF files hold it as a vector."""
    info = weights.checkpoint.tensors.get(name)
    if info is not None and len(info.shape) == 2:
        return weights.table(name, (1, hidden))
    return weights.vector(name, hidden)[None]
