"""What the decoder graph needs of a weight matrix, however it is stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import onnx_ir as ir

from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.row_source import Chunk, RowSource
from mrs.export.quantization.blocks import QuantizedBlocks
from mrs.model_repo.lock import TensorRecord

Encode = Callable[[Chunk], QuantizedBlocks]
"""Stored rows to blocks."""


class StoredMatrix(Protocol):
    """A matrix ``[rows, columns]`` that is in the weight file."""

    def multiply(self, builder: GraphBuilder, x: ir.Value, name: str) -> ir.Value:
        """``x @ matrix.T``.

        Args:
            builder: of the graph that ``x`` is in.
            x: float32 ``[..., columns]``; three dimensions unless its shape is set.
            name: of the product.
        """

    def gather(self, builder: GraphBuilder, ids: ir.Value, name: str) -> ir.Value:
        """The rows at ``ids``, int64 ``[batch, sequence]``, as float32."""


@dataclass(frozen=True)
class StoredPart:
    """A checkpoint tensor, and what becomes of it.

    Attributes:
        source: its rows.
        layout: how they lie in the weight file.
        encode: stored rows to the blocks of the layout; None where it has no blocks.
        exact: whether the graph's weights are the very values of the checkpoint.
    """

    source: RowSource
    layout: MatrixLayout
    encode: Encode | None
    exact: bool

    @property
    def record(self) -> TensorRecord:
        """How the lock describes it."""
        return TensorRecord(
            source_type=self.source.dtype, stored_as=self.layout.label, exact=self.exact
        )


class MatrixLayout(Protocol):
    """A way to store matrices."""

    @property
    def label(self) -> str:
        """As the lock names it."""

    def join(self, other: MatrixLayout) -> MatrixLayout | None:
        """The layout in which rows of both lie below one another; None if there is none."""

    def store(self, builder: GraphBuilder, name: str, parts: Sequence[StoredPart]) -> StoredMatrix:
        """Write matrices of equal width below one another, as one matrix.

        Args:
            builder: whose weight file takes the bytes.
            name: of the initializers.
            parts: the matrices, of layouts that this one is the join of.
        """


def total_rows(parts: Sequence[StoredPart]) -> int:
    """Rows of the parts below one another."""
    return sum(part.source.rows for part in parts)
