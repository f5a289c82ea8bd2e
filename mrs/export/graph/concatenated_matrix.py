"""Matrices of several layouts below one another: a product each, put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.stored_matrix import StoredMatrix


@dataclass(frozen=True)
class ConcatenatedMatrix:
    """Runs of rows, each stored as a matrix of its own."""

    runs: Sequence[StoredMatrix]

    def multiply(self, builder: GraphBuilder, x: ir.Value, name: str) -> ir.Value:
        """``x @ matrix.T``, run by run."""
        products = [run.multiply(builder, x, f"{name}.{i}") for i, run in enumerate(self.runs)]
        return builder.op("Concat", products, name, {"axis": -1})

    def gather(self, builder: GraphBuilder, ids: ir.Value, name: str) -> ir.Value:
        """Not offered: an embedding is one tensor.

        Raises:
            ValueError: always.
        """
        raise ValueError("rows of a matrix in several runs cannot be looked up")
