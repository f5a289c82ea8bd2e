"""Matrices as float32: the reference that other formats are measured against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.stored_matrix import MatrixLayout, StoredPart, total_rows


@dataclass(frozen=True)
class Float32Layout:
    """Every value dequantized."""

    label: str = "float32"

    def join(self, other: MatrixLayout) -> MatrixLayout | None:
        """Float32 joins float32."""
        return self if self == other else None

    def store(self, builder: GraphBuilder, name: str, parts: Sequence[StoredPart]) -> Float32Matrix:
        """Write the parts, dequantized, as one matrix."""
        shape = (total_rows(parts), parts[0].source.columns)
        chunks = (chunk for part in parts for chunk in part.source.float_chunks())
        stored = builder.weight_file.append(chunks, 4 * shape[0] * shape[1])
        return Float32Matrix(builder.stored(stored, name, ir.DataType.FLOAT, shape))


@dataclass(frozen=True)
class Float32Matrix:
    """Values ``[rows, columns]``, as the checkpoint orders them."""

    values: ir.Value

    def multiply(self, builder: GraphBuilder, x: ir.Value, name: str) -> ir.Value:
        """``x @ values.T``; the operator transposes while it packs, so no copy is stored."""
        return builder.contrib("FusedMatMul", [x, self.values], name, {"transB": 1})

    def gather(self, builder: GraphBuilder, ids: ir.Value, name: str) -> ir.Value:
        """The rows at ``ids``."""
        return builder.op("Gather", [self.values, ids], name)
