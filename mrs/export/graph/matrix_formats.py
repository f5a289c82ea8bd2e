"""What ``--quant`` means for each matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.float32_matrix import store_float32
from mrs.export.graph.int4_matrix import can_store_int4, store_int4
from mrs.export.graph.int8_matrix import store_int8
from mrs.export.graph.row_source import RowSource
from mrs.export.graph.stored_matrix import MatrixFormat, Stored
from mrs.export.quantization.int8_blocks import can_block


class Float32Format:
    """``fp32``: every matrix dequantized."""

    def store(
        self, builder: GraphBuilder, name: str, parts: Sequence[RowSource], *, gathered: bool
    ) -> Stored:
        """Write the parts as float32."""
        return store_float32(builder, name, parts)


class Int8Format:
    """``q8``: the accuracy of 8-bit blocks, in at most 8 bits a weight.

    A matrix whose checkpoint has 4-bit codes keeps those: half the bytes to read at each token,
    and nearer to the checkpoint than another rounding. Matrices whose width does not divide into
    blocks stay float32.
    """

    def store(
        self, builder: GraphBuilder, name: str, parts: Sequence[RowSource], *, gathered: bool
    ) -> Stored:
        """Write the parts in the smallest format that serves them."""
        if not can_block(parts[0].columns):
            return store_float32(builder, name, parts)
        if not gathered and can_store_int4(parts):
            return store_int4(builder, name, parts)
        return store_int8(builder, name, parts)


_FORMATS: Mapping[str, Callable[[], MatrixFormat]] = {"fp32": Float32Format, "q8": Int8Format}


def matrix_format(quantization: str) -> MatrixFormat:
    """The format of a resolved quantization."""
    return _FORMATS[quantization]()
