"""RMS norm (Zhang and Sennrich, arXiv:1910.07467), alone and together with the residual sum."""

from __future__ import annotations

import onnx_ir as ir

from mrs.export.graph.weights import Weights


def rms_norm(weights: Weights, x: ir.Value, name: str, size: int, epsilon: float) -> ir.Value:
    """``x / rms(x) * weight`` over the last axis, whose size is ``size``."""
    weight = _weight(weights, name, size)
    attributes = {"axis": -1, "epsilon": epsilon}
    return weights.builder.op("RMSNormalization", [x, weight], name, attributes)


def add_rms_norm(
    weights: Weights, x: ir.Value, delta: ir.Value, name: str, size: int, epsilon: float
) -> tuple[ir.Value, ir.Value]:
    """The norm of ``x + delta``, and the sum itself, in one pass over the row."""
    normed, total = ir.Value(name=name), ir.Value(name=f"{name}.residual")
    unused = [ir.Value(name=f"{name}.mean"), ir.Value(name=f"{name}.deviation")]
    weights.builder.contrib(
        "SkipSimplifiedLayerNormalization",
        [x, delta, _weight(weights, name, size)],
        name,
        {"epsilon": epsilon},
        outputs=[normed, *unused, total],
    )
    return normed, total


def _weight(weights: Weights, name: str, size: int) -> ir.Value:
    values = weights.vector(f"{name}.weight", size)
    return weights.builder.weight(f"{name}.weight", values)
