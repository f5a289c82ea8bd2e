"""8-bit blocks for MatMulNBits and GatherBlockQuantized: ``w = scale * (code - zero_point)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mrs.export.quantization.dequantize import dequantize
from mrs.export.quantization.ggml_blocks import float16_at, split_blocks, unpack_nibbles
from mrs.export.quantization.steps import SMALLEST_STEP, reciprocals

BLOCK_SIZE = 32
SYMMETRIC_ZERO_POINT = 128


@dataclass(frozen=True)
class Int8Blocks:
    """Rows of a matrix in 8-bit blocks.

    Attributes:
        codes: uint8 ``[rows, columns]``.
        scales: float32 ``[rows, columns / BLOCK_SIZE]``.
        zero_points: uint8, the shape of ``scales``.
    """

    codes: NDArray[np.uint8]
    scales: NDArray[np.float32]
    zero_points: NDArray[np.uint8]

    def is_finite(self) -> bool:
        """Whether every value is a finite number."""
        return bool(np.isfinite(self.scales).all())

    def dequantize(self) -> NDArray[np.float32]:
        """The float32 values that the blocks stand for, ``[rows, columns]``."""
        blocks = self.codes.reshape(*self.scales.shape, BLOCK_SIZE).astype(np.float32)
        values = (blocks - self.zero_points[..., None]) * self.scales[..., None]
        return values.reshape(self.codes.shape)


def can_block(columns: int) -> bool:
    """Whether rows of this many columns divide into blocks."""
    return columns % BLOCK_SIZE == 0


def is_exact(dtype: str) -> bool:
    """Whether `to_int8_blocks` keeps the very values of this storage type."""
    return dtype in _EXACT


def to_int8_blocks(rows: NDArray[np.uint8], dtype: str) -> Int8Blocks:
    """Turn stored rows into 8-bit blocks.

    Q4_0, Q5_0 and Q8_0 are repacked and keep their values. Everything else is dequantized and
    given the finest grid that covers each block; the error of a weight is at most half a step,
    ``(max - min) / 510`` of its block.

    Args:
        rows: uint8 ``[rows, bytes_per_row]`` as stored.
        dtype: GGUF type name.
    """
    repack = _EXACT.get(dtype)
    return repack(rows) if repack else quantize_blocks(dequantize(rows, dtype))


def quantize_blocks(values: NDArray[np.float32]) -> Int8Blocks:
    """Round float32 ``[rows, columns]`` to an asymmetric 8-bit grid per block that contains 0.

    A block that spans less than 3e-36 becomes zeros; one with NaN or infinity gets such a scale.
    """
    blocks = values.reshape(values.shape[0], -1, BLOCK_SIZE)
    low = np.minimum(blocks.min(axis=-1), 0)
    high = np.maximum(blocks.max(axis=-1), 0)
    # Divided one by one: the difference of two large values may overflow.
    scales = high / np.float32(255) - low / np.float32(255)
    scales[scales < SMALLEST_STEP] = 0
    inverse = reciprocals(scales)
    zero_points = np.rint(-low * inverse)
    codes = np.rint(blocks * inverse[..., None]) + zero_points[..., None]
    return Int8Blocks(
        codes=np.clip(codes, 0, 255).astype(np.uint8).reshape(values.shape),
        scales=scales,
        zero_points=zero_points.astype(np.uint8),
    )


def _symmetric(codes: NDArray[np.uint8], scales: NDArray[np.float32]) -> Int8Blocks:
    return Int8Blocks(
        codes=codes.reshape(codes.shape[0], -1),
        scales=scales,
        zero_points=np.full(scales.shape, SYMMETRIC_ZERO_POINT, dtype=np.uint8),
    )


def _repack_q8_0(rows: NDArray[np.uint8]) -> Int8Blocks:
    blocks = split_blocks(rows, 34)
    return _symmetric(blocks[..., 2:] ^ np.uint8(0x80), float16_at(blocks, 0))


def _repack_q4_0(rows: NDArray[np.uint8]) -> Int8Blocks:
    blocks = split_blocks(rows, 18)
    codes = unpack_nibbles(blocks[..., 2:]) + np.uint8(SYMMETRIC_ZERO_POINT - 8)
    return _symmetric(codes, float16_at(blocks, 0))


def _repack_q5_0(rows: NDArray[np.uint8]) -> Int8Blocks:
    blocks = split_blocks(rows, 22)
    fifth = np.unpackbits(np.ascontiguousarray(blocks[..., 2:6]), axis=-1, bitorder="little")
    codes = unpack_nibbles(blocks[..., 6:]) | (fifth << np.uint8(4))
    return _symmetric(codes + np.uint8(SYMMETRIC_ZERO_POINT - 16), float16_at(blocks, 0))


_EXACT: Mapping[str, Callable[[NDArray[np.uint8]], Int8Blocks]] = {
    "Q4_0": _repack_q4_0,
    "Q5_0": _repack_q5_0,
    "Q8_0": _repack_q8_0,
}
