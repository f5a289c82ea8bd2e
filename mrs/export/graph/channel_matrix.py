"""Matrices of int8 weights, multiplied with activations that are rounded row by row (W8A8).

Each output channel has one scale, and so has each row of activations when it comes, whatever its
neighbours are: a result does not depend on the batch. Integer products scale over many rows better
than blocks do. As one scale serves a whole row, both are turned first so that no column stands
out; see `quantization.hadamard`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.rounded_rows import rounded_rows, zero_point
from mrs.export.graph.stored_matrix import MatrixLayout, StoredPart, total_rows
from mrs.export.quantization.hadamard import group_size, turned_weights
from mrs.export.quantization.steps import reciprocals

_LARGEST = 127
# Rows of the transposed matrix that are written at a time.
_STEP = 256


@dataclass(frozen=True)
class ChannelLayout:
    """int8 weights around zero with a scale for each row."""

    label: str = "int8-channel"

    def join(self, other: MatrixLayout) -> MatrixLayout | None:
        """Rows of either part have scales of their own."""
        return self if self == other else None

    def store(self, builder: GraphBuilder, name: str, parts: Sequence[StoredPart]) -> ChannelMatrix:
        """Write the parts as one matrix, transposed: the operator takes ``[columns, rows]``.

        Its codes are in memory for that, a quarter of its float32 values.
        """
        rows, columns = total_rows(parts), parts[0].source.columns
        codes = np.empty((rows, columns), dtype=np.int8)
        scales = np.empty(rows, dtype=np.float32)
        end = 0
        for part in parts:
            for values in part.source.float_chunks():
                start, end = end, end + len(values)
                turned = turned_weights(values, group_size(columns))
                scales[start:end] = _round_rows(turned, codes[start:end])
        stored = builder.weight_file.append(_transposed(codes), codes.nbytes)
        shape = (columns, rows)
        return ChannelMatrix(
            codes=builder.stored(stored, f"{name}.codes", ir.DataType.INT8, shape),
            scales=builder.weight(f"{name}.scales", scales),
            columns=columns,
        )


@dataclass(frozen=True)
class ChannelMatrix:
    """Codes, int8 ``[columns, rows]``, and the scale of each row."""

    codes: ir.Value
    scales: ir.Value
    columns: int

    def multiply(self, builder: GraphBuilder, x: ir.Value, name: str) -> ir.Value:
        """``x @ matrix.T`` of activations and weights in int8."""
        rows = rounded_rows(builder, x, self.columns)
        one = builder.constant("one", np.array(1, dtype=np.float32))
        inputs = [rows.codes, self.codes, one, self.scales, zero_point(builder)]
        product = builder.contrib("MatMulIntegerToFloat", inputs, f"{name}.steps")
        return builder.op("Mul", [product, rows.steps], name)

    def gather(self, builder: GraphBuilder, ids: ir.Value, name: str) -> ir.Value:
        """Not offered: an embedding is stored in blocks.

        Raises:
            ValueError: always.
        """
        raise ValueError("rows of a matrix with a scale for each channel cannot be looked up")


def _round_rows(values: NDArray[np.float32], codes: NDArray[np.int8]) -> NDArray[np.float32]:
    """Round each row to int8, and return the scales."""
    largest = np.abs(values).max(axis=1)
    scales: NDArray[np.float32] = largest / np.float32(_LARGEST)
    np.rint(values * reciprocals(scales)[:, None], out=codes, casting="unsafe")
    return scales


def _transposed(codes: NDArray[np.int8]) -> Iterator[NDArray[np.int8]]:
    for start in range(0, codes.shape[1], _STEP):
        yield np.ascontiguousarray(codes[:, start : start + _STEP].T)
