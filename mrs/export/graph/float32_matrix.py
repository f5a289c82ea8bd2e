"""Matrices as float32: the reference that other formats are measured against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.row_source import RowSource
from mrs.export.graph.stored_matrix import Stored
from mrs.model_repo.lock import TensorRecord


@dataclass(frozen=True)
class Float32Matrix:
    """Values ``[rows, columns]``, as the checkpoint orders them."""

    values: ir.Value

    def multiply(self, builder: GraphBuilder, x: ir.Value, name: str, *, rank: int = 3) -> ir.Value:
        """``x @ values.T``; the operator transposes while it packs, so no copy is stored."""
        return builder.contrib("FusedMatMul", [x, self.values], name, {"transB": 1})

    def gather(self, builder: GraphBuilder, ids: ir.Value, name: str) -> ir.Value:
        """The rows at ``ids``."""
        return builder.op("Gather", [self.values, ids], name)


def store_float32(builder: GraphBuilder, name: str, parts: Sequence[RowSource]) -> Stored:
    """Write the parts, dequantized, as one float32 matrix."""
    shape = (sum(part.rows for part in parts), parts[0].columns)
    chunks = (chunk for part in parts for chunk in part.float_chunks())
    stored = builder.weight_file.append(chunks, 4 * shape[0] * shape[1])
    values = builder.stored(stored, name, ir.DataType.FLOAT, shape)
    return Float32Matrix(values), {
        part.name: TensorRecord(source_type=part.dtype, stored_as="float32", exact=True)
        for part in parts
    }
