"""Matrices in blocks of codes, multiplied by MatMulNBits and looked up by GatherBlockQuantized.

Offsets of blocks are a product of their own, ``x @ W.T = x @ Q.T + blocksum(x) @ offsets.T``. They
are kept exactly, as a float32 matrix, or as columns of the codes' matrix, which is faster and
rounds them (`mrs.export.quantization.offset_columns`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np
import onnx_ir as ir

from mrs.export.graph.block_sums import block_sums
from mrs.export.graph.builder import GraphBuilder, int64s
from mrs.export.graph.last_axis import split_last_axis
from mrs.export.graph.stored_matrix import MatrixLayout, StoredPart, total_rows
from mrs.export.graph.weight_file import StoredTensor
from mrs.export.quantization.bit_packing import pack_codes, packed_size
from mrs.export.quantization.blocks import Bytes, Floats, QuantizedBlocks, zero_point_middle
from mrs.export.quantization.offset_columns import copies_of_sums, encode_offsets


class Offsets(IntEnum):
    """What becomes of the offsets of blocks; in a matrix of several parts the highest wins."""

    NONE = 0
    COLUMNS = 1
    EXACT = 2


@dataclass(frozen=True)
class BlockLayout:
    """Codes of one width, in blocks of one size.

    Attributes:
        bits: 2, 4 or 8.
        block_size: a power of two from 16 on.
        offsets: `Offsets.COLUMNS` is for blocks of 32 codes of 4 bits.
    """

    bits: int
    block_size: int
    offsets: Offsets = Offsets.NONE

    @property
    def label(self) -> str:
        """Such as ``int4-block32+offsets``."""
        suffix = ("", "+offset-columns", "+offsets")[self.offsets]
        return f"int{self.bits}-block{self.block_size}{suffix}"

    def join(self, other: MatrixLayout) -> MatrixLayout | None:
        """Blocks of equal width and size lie below one another, with offsets or without."""
        if not isinstance(other, BlockLayout):
            return None
        if (self.bits, self.block_size) != (other.bits, other.block_size):
            return None
        return replace(self, offsets=max(self.offsets, other.offsets))

    def store(self, builder: GraphBuilder, name: str, parts: Sequence[StoredPart]) -> BlockMatrix:
        """Write the parts as one matrix of blocks."""
        return _Writer(self, builder, name, parts).write()


@dataclass(frozen=True)
class BlockMatrix:
    """A scale, and where needed a zero point and an offset, for every block of a row.

    Attributes:
        layout: of the codes.
        name: of the initializers.
        rows: number of rows.
        columns: number of columns, without those that hold offsets.
        copies: how often the block sums of ``x`` are appended to it.
        offsets: exact ones, float32 ``[rows, columns / block_size]``.
    """

    layout: BlockLayout
    name: str
    rows: int
    columns: int
    codes: StoredTensor
    scales: ir.Value
    zero_points: ir.Value | None
    copies: int = 0
    offsets: ir.Value | None = None

    def multiply(self, builder: GraphBuilder, x: ir.Value, name: str) -> ir.Value:
        """``x @ matrix.T`` with int8 activations; exact offsets meet float32 sums of them."""
        product_name = name if self.offsets is None else f"{name}.codes"
        product = self._multiply_codes(builder, self._extended(builder, x, name), product_name)
        if self.offsets is None:
            return product
        sums = block_sums(builder, x, self.layout.block_size)
        rest = builder.contrib(
            "FusedMatMul", [sums, self.offsets], f"{name}.offsets", {"transB": 1}
        )
        return builder.op("Add", [product, rest], name)

    def gather(self, builder: GraphBuilder, ids: ir.Value, name: str) -> ir.Value:
        """The rows at ``ids`` as float32.

        Raises:
            ValueError: offsets are columns, which cannot be looked up.
        """
        if self.copies:
            raise ValueError(f"rows of {self.name} cannot be looked up: it has offset columns")
        # A second view of the bytes that `multiply` uses: the operators want other shapes.
        bits, size = self.layout.bits, self.layout.block_size
        shape = (self.rows, packed_size(self.columns, bits))
        codes = builder.stored(self.codes, f"{self.name}.rows", ir.DataType.UINT8, shape)
        attributes = {"bits": bits, "block_size": size, "gather_axis": 0, "quantize_axis": 1}
        inputs = [codes, ids, self.scales, self.zero_points]
        if self.offsets is None:
            return builder.contrib("GatherBlockQuantized", inputs, name, attributes)
        rows = builder.contrib("GatherBlockQuantized", inputs, f"{name}.codes", attributes)
        return self._add_gathered_offsets(builder, rows, ids, name)

    def _multiply_codes(self, builder: GraphBuilder, x: ir.Value, name: str) -> ir.Value:
        columns = self.columns + self.copies * (self.columns // self.layout.block_size)
        blocks = -(-columns // self.layout.block_size)
        shape = (self.rows, blocks, packed_size(self.layout.block_size, self.layout.bits))
        codes = builder.stored(self.codes, f"{self.name}.codes", ir.DataType.UINT8, shape)
        attributes = {
            "K": columns,
            "N": self.rows,
            "bits": self.layout.bits,
            "block_size": self.layout.block_size,
            # Any other level dequantizes a matrix of 8 bits at each call.
            "accuracy_level": 4,
        }
        inputs = [x, codes, self.scales, self.zero_points]
        return builder.contrib("MatMulNBits", inputs, name, attributes)

    def _extended(self, builder: GraphBuilder, x: ir.Value, name: str) -> ir.Value:
        """``x`` with its block sums behind it, as often as the offset columns want them."""
        if not self.copies:
            return x

        def make() -> ir.Value:
            sums = block_sums(builder, x, self.layout.block_size)
            inputs = [x] + [sums] * self.copies
            return builder.op("Concat", inputs, f"{name}.extended", {"axis": -1})

        return builder.shared(("extended", x, self.copies), make)

    def _add_gathered_offsets(
        self, builder: GraphBuilder, rows: ir.Value, ids: ir.Value, name: str
    ) -> ir.Value:
        offsets = builder.op("Gather", [self.offsets, ids], f"{name}.offsets")
        last = builder.constant("last_axis", int64s(-1))
        each = builder.op("Unsqueeze", [offsets, last], f"{name}.offsets_of_blocks")
        blocked = split_last_axis(builder, rows, self.layout.block_size, f"{name}.blocks")
        total = builder.op("Add", [blocked, each], f"{name}.total")
        shape = builder.constant(f"rows_of_{self.columns}", int64s(0, 0, self.columns))
        return builder.op("Reshape", [total, shape], name)


@dataclass
class _Writer:
    """Writes codes as they come; the rest is a fraction of them in size and waits for its turn."""

    layout: BlockLayout
    builder: GraphBuilder
    name: str
    parts: Sequence[StoredPart]
    scales: list[Floats] = field(default_factory=list)
    zero_points: list[Bytes] = field(default_factory=list)
    offsets: list[Floats] = field(default_factory=list)

    def write(self) -> BlockMatrix:
        rows, columns = total_rows(self.parts), self.parts[0].source.columns
        blocks = columns // self.layout.block_size
        copies = copies_of_sums(blocks) if self.layout.offsets is Offsets.COLUMNS else 0
        stored_blocks = blocks + -(-copies * blocks // self.layout.block_size)
        size = packed_size(self.layout.block_size, self.layout.bits)
        return BlockMatrix(
            layout=self.layout,
            name=self.name,
            rows=rows,
            columns=columns,
            codes=self.builder.weight_file.append(self._codes(), rows * stored_blocks * size),
            scales=self._rest("scales", self.scales),
            zero_points=self._zero_points(),
            copies=copies,
            offsets=self._rest("offsets", self.offsets) if self.offsets else None,
        )

    def _codes(self) -> Iterator[Bytes]:
        for part in self.parts:
            assert part.encode is not None
            for blocks in part.source.block_chunks(part.encode):
                if self.layout.offsets is Offsets.COLUMNS:
                    blocks = _with_columns(blocks)
                elif self.layout.offsets is Offsets.EXACT:
                    self.offsets.append(_offsets(blocks))
                self.scales.append(blocks.scales)
                self.zero_points.append(blocks.zero_points)
                yield pack_codes(blocks.codes, self.layout.bits)

    def _rest(self, what: str, chunks: list[Floats]) -> ir.Value:
        return self.builder.weight(f"{self.name}.{what}", np.concatenate(chunks))

    def _zero_points(self) -> ir.Value | None:
        """None where all are what the operators assume without the input."""
        middle = zero_point_middle(self.layout.bits)
        if all(np.all(chunk == middle) for chunk in self.zero_points):
            return None
        packed = [pack_codes(chunk, self.layout.bits) for chunk in self.zero_points]
        return self.builder.weight(f"{self.name}.zero_points", np.concatenate(packed))


def _offsets(blocks: QuantizedBlocks) -> Floats:
    return np.zeros_like(blocks.scales) if blocks.offsets is None else blocks.offsets


def _with_columns(blocks: QuantizedBlocks) -> QuantizedBlocks:
    """Append the columns that hold the offsets."""
    extra = encode_offsets(_offsets(blocks))
    return QuantizedBlocks(
        bits=blocks.bits,
        codes=np.concatenate([blocks.codes, extra.codes], axis=1),
        scales=np.concatenate([blocks.scales, extra.scales], axis=1),
        zero_points=np.concatenate([blocks.zero_points, extra.zero_points], axis=1),
    )
