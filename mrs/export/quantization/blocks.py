"""Rows of a matrix in blocks of integer codes: ``w = scale * (code - zero_point) + offset``.

This is what MatMulNBits, GatherBlockQuantized and QMoE compute with, but for the offset. Several
types of GGUF subtract a *real* minimum from each block. Rounding that to an integer zero point
ruins a model, so the rest is kept as an ``offset``.

A value is *defined* as the real number ``scale * (code - zero_point) + offset``, rounded once to
float32. For the minimums of GGUF that is bit for bit what ggml computes as
``scale * code - minimum``: there ``scale * code`` has at most 22 bits and is exact in float32, so
that ggml rounds once as well, and the zero points are chosen so that the offset is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class QuantizedBlocks:
    """Rows of a matrix in blocks.

    Attributes:
        bits: 2, 4 or 8, the width of codes and zero points.
        codes: uint8 ``[rows, blocks, block_size]``.
        scales: float32 ``[rows, blocks]``.
        zero_points: uint8 ``[rows, blocks]``.
        offsets: float32 ``[rows, blocks]``, to be added to each weight of the block; None if the
            format has none.
    """

    bits: int
    codes: Bytes
    scales: Floats
    zero_points: Bytes
    offsets: Floats | None = None

    @property
    def block_size(self) -> int:
        """Weights in a block."""
        return int(self.codes.shape[-1])

    def is_finite(self) -> bool:
        """Whether every value is a finite number."""
        offsets = self.offsets is None or bool(np.isfinite(self.offsets).all())
        return offsets and bool(np.isfinite(self.scales).all())

    def dequantize(self) -> Floats:
        """The float32 values that the blocks stand for, ``[rows, blocks * block_size]``."""
        centred = self.codes.astype(np.float64) - self.zero_points[..., None]
        values = centred * self.scales[..., None]
        if self.offsets is not None:
            values += self.offsets[..., None]
        return values.reshape(self.codes.shape[0], -1).astype(np.float32)

    def split(self, block_size: int) -> QuantizedBlocks:
        """The same values in smaller blocks, whose size divides this one's."""
        times = self.block_size // block_size
        return QuantizedBlocks(
            bits=self.bits,
            codes=self.codes.reshape(self.codes.shape[0], -1, block_size),
            scales=np.repeat(self.scales, times, axis=-1),
            zero_points=np.repeat(self.zero_points, times, axis=-1),
            offsets=None if self.offsets is None else np.repeat(self.offsets, times, axis=-1),
        )

    def widen(self, bits: int) -> QuantizedBlocks:
        """The same values as codes of more bits, around their middle."""
        if self.bits == bits:
            return self
        middle = zero_point_middle(bits)
        return replace(
            self,
            bits=bits,
            codes=self.codes + (np.uint8(middle) - self.zero_points)[..., None],
            zero_points=np.full_like(self.zero_points, middle),
        )


def zero_point_middle(bits: int) -> int:
    """The zero point that the operators assume where none is given."""
    return 1 << (bits - 1)


def symmetric_blocks(codes: Bytes, scales: Floats, bits: int) -> QuantizedBlocks:
    """Blocks whose zero point is the middle of the codes."""
    zero_points = np.full(scales.shape, zero_point_middle(bits), dtype=np.uint8)
    return QuantizedBlocks(bits, codes, scales, zero_points)


def blocks_with_minimum(
    codes: Bytes, scales: Floats, minimums: Floats, bits: int
) -> QuantizedBlocks:
    """``w = scale * code - minimum``: the zero point takes what it can, the rest is offset.

    The offset ``scale * zero_point - minimum`` is at most half a step, but in a block that lies
    above or below zero as a whole: there it takes what no zero point reaches. Where float32 cannot
    hold it, the zero point is 0 and the offset the minimum itself.
    """
    ratio = np.divide(minimums, scales, out=np.zeros_like(minimums), where=scales != 0)
    zero_points = np.clip(np.rint(ratio), 0, 2**bits - 1)
    exact = scales.astype(np.float64) * zero_points - minimums
    offsets = exact.astype(np.float32)
    inexact = offsets != exact
    zero_points[inexact] = 0
    offsets[inexact] = -minimums[inexact]
    return QuantizedBlocks(bits, codes, scales, zero_points.astype(np.uint8), offsets)
