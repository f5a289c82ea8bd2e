"""Sums of neighbouring activations: what the offsets of a block format are multiplied with."""

from __future__ import annotations

import onnx_ir as ir

from mrs.export.graph.builder import GraphBuilder, int64s
from mrs.export.graph.last_axis import split_last_axis


def block_sums(builder: GraphBuilder, x: ir.Value, size: int) -> ir.Value:
    """The sum of each ``size`` neighbours in a row, computed once for each ``x``.

    Args:
        builder: of the graph that ``x`` is in.
        x: float32 ``[..., columns]``; three dimensions unless its shape is set.
        size: divides the columns.

    Returns:
        float32 ``[..., columns / size]``.
    """

    def make() -> ir.Value:
        name = f"{x.name}.block{size}"
        blocked = split_last_axis(builder, x, size, name)
        last = builder.constant("last_axis", int64s(-1))
        return builder.op("ReduceSum", [blocked, last], f"{name}.sums", {"keepdims": 0})

    return builder.shared(("block sums", x, size), make)
