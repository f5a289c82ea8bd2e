"""RMS norm (Zhang and Sennrich, arXiv:1910.07467) and layer norm (Ba et al., arXiv:1607.06450),
alone and together with the residual sum."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mrs.export.architectures.spec import NormKind, NormSpec
from mrs.export.graph.builder import int64s
from mrs.export.graph.weights import Weights


def norm(weights: Weights, x: ir.Value, name: str, size: int, spec: NormSpec) -> ir.Value:
    """The norm ``name`` over the last axis, whose size is ``size``."""
    return _norm(weights, x, name, _scale(weights, name, size, spec), spec)


def add_norm(
    weights: Weights, x: ir.Value, delta: ir.Value, name: str, size: int, spec: NormSpec
) -> tuple[ir.Value, ir.Value]:
    """The norm of ``x + delta``, and the sum itself, in one pass over the row."""
    normed, total = ir.Value(name=name), ir.Value(name=f"{name}.residual")
    unused = [ir.Value(name=f"{name}.mean"), ir.Value(name=f"{name}.deviation")]
    rms = spec.kind is NormKind.RMS
    scale = weights.builder.weight(f"{name}.weight", _scale(weights, name, size, spec))
    weights.builder.contrib(
        "SkipSimplifiedLayerNormalization" if rms else "SkipLayerNormalization",
        [x, delta, scale] if rms else [x, delta, scale, _bias(weights, name, size)],
        name,
        {"epsilon": spec.epsilon},
        outputs=[normed, *unused, total],
    )
    return normed, total


def head_norm(
    weights: Weights,
    x: ir.Value,
    name: str,
    heads: int,
    head_dim: int,
    spec: NormSpec,
    order: NDArray[np.int64] | None,
) -> ir.Value:
    """Norm queries or keys ``[batch, sequence, heads * head_dim]`` over what the tensor says.

    That is each head, with one weight vector or with its own for each head, or the whole width.

    Args:
        weights: of the checkpoint.
        x: queries or keys.
        name: of the norm.
        heads: how many.
        head_dim: size of each.
        spec: of the norm.
        order: of the rows of the projection that made ``x``, which the weights must follow.
    """
    builder = weights.builder
    info = weights.checkpoint.tensors.get(f"{name}.weight")
    shape = info.shape if info is not None else ()
    if shape == (heads * head_dim,) and heads > 1:
        scale = _scale(weights, name, heads * head_dim, spec)
        return _norm(weights, x, name, scale, spec, order)
    by_head = builder.op(
        "Reshape",
        [x, builder.constant(f"heads_shape_{heads}x{head_dim}", int64s(0, 0, heads, head_dim))],
        f"{name}.heads",
    )
    if len(shape) == 2:
        scale = weights.table(f"{name}.weight", (heads, head_dim)) + np.float32(spec.offset)
        if order is not None:
            scale = scale.reshape(-1)[order].reshape(heads, head_dim)
        plain = _norm(weights, by_head, name, np.ones(head_dim, np.float32), spec)
        own = builder.weight(f"{name}.heads.weight", scale)
        normed = builder.op("Mul", [plain, own], f"{name}.scaled")
    else:
        scale = _scale(weights, name, head_dim, spec)
        first_head = None if order is None else order[:head_dim]
        normed = _norm(weights, by_head, name, scale, spec, first_head)
    flat = builder.constant("flat_heads_shape", int64s(0, 0, -1))
    return builder.op("Reshape", [normed, flat], f"{name}.flat")


def _norm(
    weights: Weights,
    x: ir.Value,
    name: str,
    scale: NDArray[np.float32],
    spec: NormSpec,
    order: NDArray[np.int64] | None = None,
) -> ir.Value:
    """The norm, its weights and biases put into ``order``."""
    builder = weights.builder
    scale = scale if order is None else scale[order]
    inputs: list[ir.Value | None] = [x, builder.weight(f"{name}.weight", scale)]
    attributes = {"axis": -1, "epsilon": spec.epsilon}
    if spec.kind is NormKind.RMS:
        return builder.op("RMSNormalization", inputs, name, attributes)
    if f"{name}.bias" in weights.checkpoint.tensors:
        inputs.append(_bias(weights, name, len(scale), order))
    return builder.op("LayerNormalization", inputs, name, attributes)


def _scale(weights: Weights, name: str, size: int, spec: NormSpec) -> NDArray[np.float32]:
    values = weights.vector(f"{name}.weight", size)
    return values + np.float32(spec.offset) if spec.offset else values


def _bias(
    weights: Weights, name: str, size: int, order: NDArray[np.int64] | None = None
) -> ir.Value | None:
    if f"{name}.bias" not in weights.checkpoint.tensors:
        return None
    values = weights.vector(f"{name}.bias", size)
    return weights.builder.weight(f"{name}.bias", values if order is None else values[order])
