"""Matrices in 8-bit blocks, multiplied by MatMulNBits and looked up by GatherBlockQuantized."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.row_source import RowSource
from mrs.export.graph.stored_matrix import Stored
from mrs.export.graph.weight_file import StoredTensor
from mrs.export.quantization import int8_blocks
from mrs.export.quantization.int8_blocks import BLOCK_SIZE
from mrs.model_repo.lock import TensorRecord


@dataclass(frozen=True)
class Int8Matrix:
    """Codes with a scale, and where needed a zero point, for every block of a row."""

    codes: StoredTensor
    scales: ir.Value
    zero_points: ir.Value | None
    name: str
    rows: int
    columns: int

    def multiply(self, builder: GraphBuilder, x: ir.Value, name: str, *, rank: int = 3) -> ir.Value:
        """``x @ matrix.T`` with int8 activations."""
        shape = (self.rows, self.columns // BLOCK_SIZE, BLOCK_SIZE)
        codes = builder.stored(self.codes, f"{self.name}.codes", ir.DataType.UINT8, shape)
        attributes = {
            "K": self.columns,
            "N": self.rows,
            "bits": 8,
            "block_size": BLOCK_SIZE,
            # Any other level dequantizes the whole matrix at each call.
            "accuracy_level": 4,
        }
        inputs = [x, codes, self.scales, self.zero_points]
        return builder.contrib("MatMulNBits", inputs, name, attributes)

    def gather(self, builder: GraphBuilder, ids: ir.Value, name: str) -> ir.Value:
        """The rows at ``ids`` as float32."""
        # A second view of the bytes that `multiply` uses: the operators want other shapes.
        shape = (self.rows, self.columns)
        codes = builder.stored(self.codes, f"{self.name}.rows", ir.DataType.UINT8, shape)
        attributes = {"bits": 8, "block_size": BLOCK_SIZE, "gather_axis": 0, "quantize_axis": 1}
        inputs = [codes, ids, self.scales, self.zero_points]
        return builder.contrib("GatherBlockQuantized", inputs, name, attributes)


def store_int8(builder: GraphBuilder, name: str, parts: Sequence[RowSource]) -> Stored:
    """Write the parts as one matrix of 8-bit blocks."""
    rows, columns = sum(part.rows for part in parts), parts[0].columns
    # A few percent of the codes in size, so they can wait until the codes are written.
    scales: list[NDArray[np.float32]] = []
    zero_points: list[NDArray[np.uint8]] = []

    def codes() -> Iterator[NDArray[np.uint8]]:
        for part in parts:
            for blocks in part.block_chunks(int8_blocks.to_int8_blocks):
                scales.append(blocks.scales)
                zero_points.append(blocks.zero_points)
                yield blocks.codes

    matrix = Int8Matrix(
        codes=builder.weight_file.append(codes(), rows * columns),
        scales=builder.weight(f"{name}.scales", np.concatenate(scales)),
        zero_points=_zero_points(builder, name, np.concatenate(zero_points)),
        name=name,
        rows=rows,
        columns=columns,
    )
    return matrix, {part.name: _record(part) for part in parts}


def _zero_points(
    builder: GraphBuilder, name: str, zero_points: NDArray[np.uint8]
) -> ir.Value | None:
    """None where all are what the operators assume without the input."""
    if np.all(zero_points == int8_blocks.SYMMETRIC_ZERO_POINT):
        return None
    return builder.weight(f"{name}.zero_points", zero_points)


def _record(part: RowSource) -> TensorRecord:
    return TensorRecord(
        source_type=part.dtype,
        stored_as=f"int8-block{BLOCK_SIZE}",
        exact=int8_blocks.is_exact(part.dtype),
    )
