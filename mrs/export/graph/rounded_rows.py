"""Activations as 8-bit codes with one step for each row, made while the model runs.

Groups of columns are turned by a Hadamard matrix first; see `quantization.hadamard`. Weights that
these codes are multiplied with must be turned as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from mrs.export.graph.builder import GraphBuilder, int64s
from mrs.export.graph.last_axis import join_last_axes, split_last_axis
from mrs.export.quantization.hadamard import group_size, hadamard

_LARGEST = 127
# The kernels that are fast on processors with VNNI multiply unsigned with signed codes.
_ZERO_POINT = 128


@dataclass(frozen=True)
class RoundedRows:
    """Rows whose values are ``(codes - 128) * steps``.

    Attributes:
        codes: uint8 ``[..., columns]``.
        steps: float32 ``[..., 1]``.
    """

    codes: ir.Value
    steps: ir.Value


def rounded_rows(builder: GraphBuilder, x: ir.Value, columns: int) -> RoundedRows:
    """Turn ``x`` and round it; made once for each ``x``, whatever its neighbours in a batch are.

    Args:
        builder: of the graph that ``x`` is in.
        x: float32 ``[..., columns]``; three dimensions unless its shape is set.
        columns: of ``x``.
    """

    def make() -> RoundedRows:
        name = f"{x.name}.int8"
        turned = _turn(builder, x, columns)
        steps = _steps(builder, turned, name)
        return RoundedRows(_codes(builder, turned, steps, columns, name), steps)

    return builder.shared(("rounded rows", x), make)


def zero_point(builder: GraphBuilder) -> ir.Value:
    """The code of 0, a scalar."""
    return builder.constant("activation_zero", np.array(_ZERO_POINT, dtype=np.uint8))


def _turn(builder: GraphBuilder, x: ir.Value, columns: int) -> ir.Value:
    size = group_size(columns)
    if size == 1:
        return x
    name = f"{x.name}.turned"
    groups = split_last_axis(builder, x, size, f"{name}.from")
    matrix = builder.constant(f"hadamard{size}", hadamard(size))
    turned = builder.op("MatMul", [groups, matrix], f"{name}.groups")
    return join_last_axes(builder, turned, x, name)


def _steps(builder: GraphBuilder, x: ir.Value, name: str) -> ir.Value:
    last = builder.constant("last_axis", int64s(-1))
    magnitudes = builder.op("Abs", [x], f"{name}.magnitudes")
    largest = builder.op("ReduceMax", [magnitudes, last], f"{name}.largest", {"keepdims": 1})
    # 0 for a row of zeros, as padding has: its codes are anything, and their product 0.
    return builder.scaled(largest, 1 / _LARGEST, f"{name}.steps", constant="share_of_127")


def _codes(
    builder: GraphBuilder, x: ir.Value, steps: ir.Value, columns: int, name: str
) -> ir.Value:
    # One operator for divide, round, shift and cast. It wants as many zero points as steps: what a
    # step rounds to beside the largest float.
    largest = builder.constant("largest_float", np.array(np.finfo(np.float32).max))
    zeros = builder.op("QuantizeLinear", [steps, largest, zero_point(builder)], f"{name}.zeros")
    attributes = {"axis": -1, "block_size": columns}
    return builder.op("QuantizeLinear", [x, steps, zeros], name, attributes)
