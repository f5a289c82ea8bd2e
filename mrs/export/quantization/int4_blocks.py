"""4-bit checkpoint blocks kept as they are: ``w = scale * (code - zero_point) + offset``.

MatMulNBits takes 4-bit codes with an integer zero point, and the 4-bit types of GGUF fit it up to
one thing: Q4_1 and Q4_K subtract a *real* minimum from each block. Rounding that to an integer
zero point ruins a model, so each block keeps the rest as an ``offset``. That is at most half a
step, but in a block that lies above or below zero as a whole: there it takes what the zero point
cannot reach. `mrs.export.quantization.offset_columns` says where the offsets go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mrs.export.quantization.ggml_blocks import float16_at, split_blocks, unpack_nibbles

BLOCK_SIZE = 32
_LARGEST_CODE = 15


@dataclass(frozen=True)
class Int4Blocks:
    """Rows of a matrix in 4-bit blocks.

    Attributes:
        codes: uint8 ``[rows, blocks, BLOCK_SIZE]``, values 0 to 15.
        scales: float32 ``[rows, blocks]``.
        zero_points: uint8 ``[rows, blocks]``, values 0 to 15.
        offsets: float32 ``[rows, blocks]``, to be added to each weight of the block.
    """

    codes: NDArray[np.uint8]
    scales: NDArray[np.float32]
    zero_points: NDArray[np.uint8]
    offsets: NDArray[np.float32]

    def is_finite(self) -> bool:
        """Whether every value is a finite number."""
        return bool(np.isfinite(self.scales).all() and np.isfinite(self.offsets).all())

    def dequantize(self) -> NDArray[np.float32]:
        """The float32 values that the blocks stand for, ``[rows, blocks * BLOCK_SIZE]``."""
        centred = self.codes.astype(np.float32) - self.zero_points[..., None]
        values = centred * self.scales[..., None] + self.offsets[..., None]
        return values.reshape(self.codes.shape[0], -1)


def is_int4(dtype: str) -> bool:
    """Whether a storage type has 4-bit codes in blocks that `to_int4_blocks` takes."""
    return dtype in _UNPACK


def has_offsets(dtype: str) -> bool:
    """Whether the blocks of a type that `is_int4` have offsets."""
    return dtype in ("Q4_1", "Q4_K")


def to_int4_blocks(rows: NDArray[np.uint8], dtype: str) -> Int4Blocks:
    """Unpack stored rows, uint8 ``[rows, bytes_per_row]`` of a type that `is_int4`."""
    return _UNPACK[dtype](rows)


def pack_nibbles(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pack pairs along the last axis, the first of each in the low nibble; odd ends get a 0."""
    if codes.shape[-1] % 2:
        codes = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, 1)])
    return codes[..., 0::2] | (codes[..., 1::2] << np.uint8(4))


def _with_minimum(
    codes: NDArray[np.uint8], scales: NDArray[np.float32], minimums: NDArray[np.float32]
) -> Int4Blocks:
    """``w = scale * code - minimum``: the zero point takes what it can, the rest is offset."""
    ratio = np.divide(minimums, scales, out=np.zeros_like(minimums), where=scales != 0)
    zero_points = np.clip(np.rint(ratio), 0, _LARGEST_CODE)
    return Int4Blocks(
        codes=codes,
        scales=scales,
        zero_points=zero_points.astype(np.uint8),
        offsets=scales * zero_points - minimums,
    )


def _unpack_q4_0(rows: NDArray[np.uint8]) -> Int4Blocks:
    blocks = split_blocks(rows, 18)
    scales = float16_at(blocks, 0)
    return Int4Blocks(
        codes=unpack_nibbles(blocks[..., 2:]),
        scales=scales,
        zero_points=np.full(scales.shape, 8, dtype=np.uint8),
        offsets=np.zeros_like(scales),
    )


def _unpack_q4_1(rows: NDArray[np.uint8]) -> Int4Blocks:
    blocks = split_blocks(rows, 20)
    return _with_minimum(
        unpack_nibbles(blocks[..., 4:]), float16_at(blocks, 0), -float16_at(blocks, 2)
    )


def _unpack_q4_k(rows: NDArray[np.uint8]) -> Int4Blocks:
    """Super-blocks of 256: eight blocks whose scale and minimum are 6-bit factors of two halves."""
    blocks = split_blocks(rows, 144)
    scales, minimums = _six_bit_pairs(blocks[..., 4:16])
    scale = (float16_at(blocks, 0)[..., None] * scales).reshape(rows.shape[0], -1)
    minimum = (float16_at(blocks, 2)[..., None] * minimums).reshape(rows.shape[0], -1)
    packed = blocks[..., 16:].reshape(rows.shape[0], -1, BLOCK_SIZE)
    # Each run of 32 bytes holds two blocks: one in the low nibbles, the next in the high ones.
    codes = np.stack([packed & np.uint8(0x0F), packed >> np.uint8(4)], axis=2)
    return _with_minimum(codes.reshape(rows.shape[0], -1, BLOCK_SIZE), scale, minimum)


def _six_bit_pairs(
    packed: NDArray[np.uint8],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The eight 6-bit scales and eight 6-bit minimums in 12 bytes, each ``[..., 8]``."""
    first, second, third = packed[..., 0:4], packed[..., 4:8], packed[..., 8:12]
    low, high = np.uint8(0x0F), np.uint8(0x3F)
    four, six = np.uint8(4), np.uint8(6)
    scales = np.concatenate([first & high, (third & low) | ((first >> six) << four)], axis=-1)
    minimums = np.concatenate([second & high, (third >> four) | ((second >> six) << four)], axis=-1)
    return scales.astype(np.float32), minimums.astype(np.float32)


_UNPACK: Mapping[str, Callable[[NDArray[np.uint8]], Int4Blocks]] = {
    "Q4_0": _unpack_q4_0,
    "Q4_1": _unpack_q4_1,
    "Q4_K": _unpack_q4_k,
}
