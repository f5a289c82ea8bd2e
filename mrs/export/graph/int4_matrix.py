"""Matrices that keep the checkpoint's 4-bit codes, multiplied by MatMulNBits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mrs.export.graph.builder import GraphBuilder, int64s
from mrs.export.graph.row_source import RowSource
from mrs.export.graph.stored_matrix import Stored
from mrs.export.quantization.int4_blocks import (
    BLOCK_SIZE,
    Int4Blocks,
    has_offsets,
    is_int4,
    pack_nibbles,
    to_int4_blocks,
)
from mrs.export.quantization.offset_columns import (
    MOST_COPIES,
    copies_of_sums,
    encode_offsets,
)
from mrs.model_repo.lock import TensorRecord


@dataclass(frozen=True)
class Int4Matrix:
    """Codes with a scale and a zero point for every block of a row, and columns for offsets.

    Attributes:
        copies: how often the block sums of ``x`` are appended to it; 0 without offsets.
    """

    codes: ir.Value
    scales: ir.Value
    zero_points: ir.Value
    rows: int
    columns: int
    copies: int

    def multiply(self, builder: GraphBuilder, x: ir.Value, name: str, *, rank: int = 3) -> ir.Value:
        """``x @ matrix.T`` with int8 activations."""
        attributes = {
            "K": self.columns + self.copies * (self.columns // BLOCK_SIZE),
            "N": self.rows,
            "bits": 4,
            "block_size": BLOCK_SIZE,
            "accuracy_level": 4,
        }
        extended = self._append_sums(builder, x, name, rank) if self.copies else x
        inputs = [extended, self.codes, self.scales, self.zero_points]
        return builder.contrib("MatMulNBits", inputs, name, attributes)

    def gather(self, builder: GraphBuilder, ids: ir.Value, name: str) -> ir.Value:
        """Not offered: an embedding is stored in a format that has no offsets."""
        raise NotImplementedError("rows of a 4-bit matrix cannot be looked up")

    def _append_sums(self, builder: GraphBuilder, x: ir.Value, name: str, rank: int) -> ir.Value:
        kept = [0] * (rank - 1)  # A 0 keeps the dimension as it is.
        blocks = builder.constant(f"blocks_shape_{rank}d", int64s(*kept, -1, BLOCK_SIZE))
        blocked = builder.op("Reshape", [x, blocks], f"{name}.blocks")
        axis = builder.constant("last_axis", int64s(-1))
        sums = builder.op("ReduceSum", [blocked, axis], f"{name}.sums", {"keepdims": 0})
        return builder.op("Concat", [x] + [sums] * self.copies, f"{name}.extended", {"axis": -1})


def can_store_int4(parts: Sequence[RowSource]) -> bool:
    """Whether all parts have 4-bit codes, and are wide enough for what their offsets cost."""
    if not all(is_int4(part.dtype) for part in parts):
        return False
    return _copies(parts) <= MOST_COPIES


def _copies(parts: Sequence[RowSource]) -> int:
    """How often the block sums are needed: not at all where no part has offsets."""
    if not any(has_offsets(part.dtype) for part in parts):
        return 0
    return copies_of_sums(parts[0].columns // BLOCK_SIZE)


def store_int4(builder: GraphBuilder, name: str, parts: Sequence[RowSource]) -> Stored:
    """Write the parts, which `can_store_int4`, as one matrix of 4-bit blocks."""
    rows, columns = sum(part.rows for part in parts), parts[0].columns
    sums = columns // BLOCK_SIZE
    copies = _copies(parts)
    blocks_per_row = sums + -(-copies * sums // BLOCK_SIZE)
    # A fifth of the codes in size, so they can wait until the codes are written.
    scales: list[NDArray[np.float32]] = []
    zero_points: list[NDArray[np.uint8]] = []

    def codes() -> Iterator[NDArray[np.uint8]]:
        for part in parts:
            for unpacked in part.block_chunks(to_int4_blocks):
                blocks = _extend(unpacked, copies)
                scales.append(blocks.scales)
                zero_points.append(pack_nibbles(blocks.zero_points))
                yield pack_nibbles(blocks.codes)

    stored = builder.weight_file.append(codes(), rows * blocks_per_row * BLOCK_SIZE // 2)
    shape = (rows, blocks_per_row, BLOCK_SIZE // 2)
    matrix = Int4Matrix(
        codes=builder.stored(stored, f"{name}.codes", ir.DataType.UINT8, shape),
        scales=builder.weight(f"{name}.scales", np.concatenate(scales)),
        zero_points=builder.weight(f"{name}.zero_points", np.concatenate(zero_points)),
        rows=rows,
        columns=columns,
        copies=copies,
    )
    return matrix, {part.name: _record(part) for part in parts}


def _extend(blocks: Int4Blocks, copies: int) -> Int4Blocks:
    """Append the columns that hold the offsets."""
    if not copies:
        return blocks
    extra = encode_offsets(blocks.offsets)
    return Int4Blocks(
        codes=np.concatenate([blocks.codes, extra.codes], axis=1),
        scales=np.concatenate([blocks.scales, extra.scales], axis=1),
        zero_points=np.concatenate([blocks.zero_points, extra.zero_points], axis=1),
        offsets=blocks.offsets,
    )


def _record(part: RowSource) -> TensorRecord:
    offsets = has_offsets(part.dtype)
    return TensorRecord(
        source_type=part.dtype,
        stored_as=f"int4-block{BLOCK_SIZE}" + ("+offsets" if offsets else ""),
        exact=not offsets,
    )
