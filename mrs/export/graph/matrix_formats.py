"""How a matrix of weights is stored in the artifact and multiplied: one class per format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.row_source import RowSource
from mrs.export.graph.weight_file import StoredTensor
from mrs.export.quantization import int8_blocks
from mrs.model_repo.lock import TensorRecord


class StoredMatrix(Protocol):
    """A matrix ``[rows, columns]`` that is in the weight file."""

    def multiply(self, builder: GraphBuilder, x: ir.Value, name: str) -> ir.Value:
        """``x @ matrix.T``."""

    def gather(self, builder: GraphBuilder, ids: ir.Value, name: str) -> ir.Value:
        """The rows at ``ids`` as float32."""


class MatrixFormat(Protocol):
    """Writes matrices in one format."""

    def store(
        self, builder: GraphBuilder, name: str, parts: Sequence[RowSource]
    ) -> tuple[StoredMatrix, dict[str, TensorRecord]]:
        """Write matrices of equal width below one another, as one matrix.

        Returns:
            the stored matrix, and how each checkpoint tensor is held by it.
        """


@dataclass(frozen=True)
class _Float32Matrix:
    values: ir.Value

    def multiply(self, builder: GraphBuilder, x: ir.Value, name: str) -> ir.Value:
        return builder.contrib("FusedMatMul", [x, self.values], name, {"transB": 1})

    def gather(self, builder: GraphBuilder, ids: ir.Value, name: str) -> ir.Value:
        return builder.op("Gather", [self.values, ids], name)


class Float32Format:
    """Dequantized weights: the reference that other formats are measured against."""

    def store(
        self, builder: GraphBuilder, name: str, parts: Sequence[RowSource]
    ) -> tuple[StoredMatrix, dict[str, TensorRecord]]:
        """Write the parts as one float32 matrix."""
        shape = (sum(part.rows for part in parts), parts[0].columns)
        chunks = (chunk for part in parts for chunk in part.float_chunks())
        stored = builder.weights.append(chunks, 4 * shape[0] * shape[1])
        values = builder.stored(stored, name, ir.DataType.FLOAT, shape)
        records = {part.name: TensorRecord(source_type=part.dtype, stored_as="float32", exact=True)
                   for part in parts}  # fmt: skip
        return _Float32Matrix(values), records


@dataclass(frozen=True)
class _Int8Matrix:
    codes: StoredTensor
    scales: ir.Value
    zero_points: ir.Value | None
    name: str
    rows: int
    columns: int

    def multiply(self, builder: GraphBuilder, x: ir.Value, name: str) -> ir.Value:
        blocks = self.columns // int8_blocks.BLOCK_SIZE
        codes = builder.stored(
            self.codes,
            f"{self.name}.codes",
            ir.DataType.UINT8,
            (self.rows, blocks, int8_blocks.BLOCK_SIZE),
        )
        attributes = {
            "K": self.columns,
            "N": self.rows,
            "bits": 8,
            "block_size": int8_blocks.BLOCK_SIZE,
            # int8 activations; any other level dequantizes the whole matrix at each call.
            "accuracy_level": 4,
        }
        return builder.contrib(
            "MatMulNBits", [x, codes, self.scales, self.zero_points], name, attributes
        )

    def gather(self, builder: GraphBuilder, ids: ir.Value, name: str) -> ir.Value:
        # A second view of the bytes that `multiply` uses: the operators want other shapes.
        codes = builder.stored(
            self.codes, f"{self.name}.rows", ir.DataType.UINT8, (self.rows, self.columns)
        )
        attributes = {
            "bits": 8,
            "block_size": int8_blocks.BLOCK_SIZE,
            "gather_axis": 0,
            "quantize_axis": 1,
        }
        return builder.contrib(
            "GatherBlockQuantized", [codes, ids, self.scales, self.zero_points], name, attributes
        )


class Int8Format:
    """8-bit blocks; matrices whose width does not divide into blocks stay float32."""

    def store(
        self, builder: GraphBuilder, name: str, parts: Sequence[RowSource]
    ) -> tuple[StoredMatrix, dict[str, TensorRecord]]:
        """Write the parts as one matrix of 8-bit blocks."""
        rows, columns = sum(part.rows for part in parts), parts[0].columns
        if not int8_blocks.can_block(columns):
            return Float32Format().store(builder, name, parts)
        scales: list[NDArray[np.float32]] = []
        zero_points: list[NDArray[np.uint8]] = []

        def codes() -> Iterator[NDArray[np.uint8]]:
            for part in parts:
                for chunk in part.chunks():
                    blocks = int8_blocks.to_int8_blocks(chunk, part.dtype)
                    scales.append(blocks.scales)
                    zero_points.append(blocks.zero_points)
                    yield blocks.codes

        stored = builder.weights.append(codes(), rows * columns)
        matrix = _Int8Matrix(
            codes=stored,
            scales=builder.weight(f"{name}.scales", np.concatenate(scales)),
            zero_points=_zero_points(builder, name, np.concatenate(zero_points)),
            name=name,
            rows=rows,
            columns=columns,
        )
        return matrix, {part.name: _int8_record(part) for part in parts}


def _zero_points(
    builder: GraphBuilder, name: str, zero_points: NDArray[np.uint8]
) -> ir.Value | None:
    """None where all are what the operators assume without the input."""
    if np.all(zero_points == int8_blocks.SYMMETRIC_ZERO_POINT):
        return None
    return builder.weight(f"{name}.zero_points", zero_points)


def _int8_record(part: RowSource) -> TensorRecord:
    return TensorRecord(
        source_type=part.dtype,
        stored_as=f"int8-block{int8_blocks.BLOCK_SIZE}",
        exact=int8_blocks.is_exact(part.dtype),
    )
