"""The last axis in two, and back."""

from __future__ import annotations

import onnx_ir as ir

from mrs.export.graph.builder import GraphBuilder, int64s


def split_last_axis(builder: GraphBuilder, x: ir.Value, size: int, name: str) -> ir.Value:
    """``x`` with its last axis in two, ``[..., columns / size, size]``."""
    rank = _rank(x)
    kept = [0] * (rank - 1)  # A 0 keeps the dimension as it is.
    shape = builder.constant(f"blocks_of_{size}_{rank}d", int64s(*kept, -1, size))
    return builder.op("Reshape", [x, shape], name)


def join_last_axes(builder: GraphBuilder, split: ir.Value, like: ir.Value, name: str) -> ir.Value:
    """The inverse of `split_last_axis`: the last two axes as one, and the rest as in ``like``."""
    rank = _rank(like)
    shape = builder.constant(f"rows_{rank}d", int64s(*[0] * (rank - 1), -1))
    return builder.op("Reshape", [split, shape], name)


def _rank(x: ir.Value) -> int:
    return 3 if x.shape is None else len(x.shape)
