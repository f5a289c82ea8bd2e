"""What the decoder graph needs of a weight matrix, however it is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import onnx_ir as ir

from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.row_source import RowSource
from mrs.model_repo.lock import TensorRecord


class StoredMatrix(Protocol):
    """A matrix ``[rows, columns]`` that is in the weight file."""

    def multiply(self, builder: GraphBuilder, x: ir.Value, name: str, *, rank: int = 3) -> ir.Value:
        """``x @ matrix.T``.

        Args:
            builder: of the graph that ``x`` is in.
            x: float32 ``[..., columns]``.
            name: of the product.
            rank: how many dimensions ``x`` has.
        """

    def gather(self, builder: GraphBuilder, ids: ir.Value, name: str) -> ir.Value:
        """The rows at ``ids`` as float32."""


Stored = tuple[StoredMatrix, dict[str, TensorRecord]]


class MatrixFormat(Protocol):
    """Decides how matrices are stored, and writes them."""

    def store(
        self, builder: GraphBuilder, name: str, parts: Sequence[RowSource], *, gathered: bool
    ) -> Stored:
        """Write matrices of equal width below one another, as one matrix.

        Args:
            builder: whose weight file takes the bytes.
            name: of the initializers.
            parts: the matrices.
            gathered: whether rows will be looked up, as in an embedding.

        Returns:
            the stored matrix, and how each checkpoint tensor is held by it.
        """
