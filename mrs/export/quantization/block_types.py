"""Checkpoint tensor types whose codes MatMulNBits can hold, and how to unpack each exactly.

Most types fit as they are. Types whose codes index a table (IQ4_NL, IQ2_XXS, ...) fit as well: the
table holds small integers, so the looked-up values themselves are codes of 8 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from mrs.export.quantization import ggml_scales as scales_of
from mrs.export.quantization.blocks import (
    Bytes,
    Floats,
    QuantizedBlocks,
    blocks_with_minimum,
    symmetric_blocks,
    zero_point_middle,
)
from mrs.export.quantization.dequantize import dequantize
from mrs.export.quantization.ggml_scales import float16_at, split_blocks
from mrs.export.quantization.group_types import GroupType, parse_group_type, unpack_groups

_SMALLEST_GROUP, _LARGEST_GROUP = 16, 128

Unpack = Callable[[Bytes], QuantizedBlocks]


@dataclass(frozen=True)
class BlockType:
    """A storage type whose values blocks of codes hold exactly.

    Attributes:
        bits: width of the codes.
        block_size: weights that share a scale.
        offsets: whether the blocks have offsets.
        unpack: stored rows, uint8 ``[rows, bytes_per_row]``, to blocks.
    """

    bits: int
    block_size: int
    offsets: bool
    unpack: Unpack


def block_type(dtype: str) -> BlockType | None:
    """The block type of a storage type, or None: floats have no codes."""
    group = parse_group_type(dtype)
    if group is not None:
        return _group_block_type(group)
    return _TYPES.get(dtype)


def _group_block_type(group: GroupType) -> BlockType | None:
    """Blocks are powers of two from 16 to 128: larger groups are cut into several."""
    size = min(group.size & -group.size, _LARGEST_GROUP)
    if size < _SMALLEST_GROUP:
        return None
    return BlockType(group.bits, size, False, lambda rows: unpack_groups(rows, group).split(size))


# --- types with a minimum -------------------------------------------------------------------------


def _nibbles(packed: Bytes) -> Bytes:
    """Codes in ggml's order: low nibbles are the first half of a block, high ones the second."""
    return np.concatenate([packed & np.uint8(0x0F), packed >> np.uint8(4)], axis=-1)


def _fifth_bits(packed: Bytes) -> Bytes:
    """The bits of four bytes, moved to where they are the fifth of a code."""
    bits = np.unpackbits(np.ascontiguousarray(packed), axis=-1, bitorder="little")
    return bits << np.uint8(4)


def _q4_1(rows: Bytes) -> QuantizedBlocks:
    blocks = split_blocks(rows, 20)
    codes = _nibbles(blocks[..., 4:])
    return blocks_with_minimum(codes, float16_at(blocks, 0), -float16_at(blocks, 2), bits=4)


def _q5_1(rows: Bytes) -> QuantizedBlocks:
    blocks = split_blocks(rows, 24)
    codes = _nibbles(blocks[..., 8:]) | _fifth_bits(blocks[..., 4:8])
    return blocks_with_minimum(codes, float16_at(blocks, 0), -float16_at(blocks, 2), bits=8)


def _q4_k(rows: Bytes) -> QuantizedBlocks:
    blocks = split_blocks(rows, 144)
    scales, minimums = scales_of.q4_k(blocks)
    return blocks_with_minimum(_k_nibbles(blocks[..., 16:]), scales, minimums, bits=4)


def _q5_k(rows: Bytes) -> QuantizedBlocks:
    blocks = split_blocks(rows, 176)
    scales, minimums = scales_of.q4_k(blocks)
    # Bit b of byte j belongs to weight j of the b-th block of 32.
    places = np.arange(8, dtype=np.uint8)[:, None]
    fifth = (blocks[..., None, 16:48] >> places) & np.uint8(1)
    codes = _k_nibbles(blocks[..., 48:]) | (fifth << np.uint8(4)).reshape(rows.shape[0], -1, 32)
    return blocks_with_minimum(codes, scales, minimums, bits=8)


def _k_nibbles(packed: Bytes) -> Bytes:
    """Each run of 32 bytes holds two blocks: one in the low nibbles, the next in the high ones."""
    runs = packed.reshape(packed.shape[0], -1, 32)
    codes = np.stack([runs & np.uint8(0x0F), runs >> np.uint8(4)], axis=2)
    return codes.reshape(packed.shape[0], -1, 32)


def _q2_k(rows: Bytes) -> QuantizedBlocks:
    blocks = split_blocks(rows, 84)
    scales, minimums = scales_of.q2_k(blocks)
    codes = _two_bits(blocks[..., 16:80]).reshape(rows.shape[0], -1, 16)
    return blocks_with_minimum(codes, scales, minimums, bits=4)


def _two_bits(packed: Bytes) -> Bytes:
    """Each run of 32 bytes holds 128 weights: 32 in the lowest bits of the bytes, and so on."""
    runs = packed.reshape(packed.shape[0], -1, 1, 32)
    codes = (runs >> np.arange(0, 8, 2, dtype=np.uint8)[:, None]) & np.uint8(3)
    return codes.reshape(packed.shape[0], -1, 128)


# --- types without one ----------------------------------------------------------------------------


def _q4_0(rows: Bytes) -> QuantizedBlocks:
    blocks = split_blocks(rows, 18)
    return symmetric_blocks(_nibbles(blocks[..., 2:]), float16_at(blocks, 0), bits=4)


def _q5_0(rows: Bytes) -> QuantizedBlocks:
    blocks = split_blocks(rows, 22)
    codes = _nibbles(blocks[..., 6:]) | _fifth_bits(blocks[..., 2:6])
    return symmetric_blocks(codes + np.uint8(128 - 16), float16_at(blocks, 0), bits=8)


def _q8_0(rows: Bytes) -> QuantizedBlocks:
    blocks = split_blocks(rows, 34)
    return symmetric_blocks(blocks[..., 2:] ^ np.uint8(0x80), float16_at(blocks, 0), bits=8)


def _tq2_0(rows: Bytes) -> QuantizedBlocks:
    """Codes 0 to 2 for -1 to 1. A block that holds a code 3, for 2, needs another zero point."""
    codes = _two_bits(split_blocks(rows, 66)[..., :64])
    raised = (codes == 3).any(axis=-1)
    zero_points = np.where(raised, np.uint8(1), np.uint8(2))
    codes += (zero_points - np.uint8(1))[..., None]
    return QuantizedBlocks(2, codes, scales_of.tq2_0(rows), zero_points)


def _by_value(dtype: str, bits: int, size: int, scales: Callable[[Bytes], Floats]) -> BlockType:
    """A type whose values are integers times the scale of their block.

    The codes are found by dividing: value and scale are exact in float32, so the quotient is the
    integer itself, and ``scale * code`` the value.
    """

    def unpack(rows: Bytes) -> QuantizedBlocks:
        found = scales(rows)
        values = dequantize(rows, dtype).reshape(*found.shape, size)
        if not np.isfinite(values).all():  # A scale may be finite where its product is not.
            found = np.where(np.isfinite(values).all(axis=-1), found, np.float32(np.nan))
            values = np.where(np.isfinite(found)[..., None], values, 0)
        steps = np.where((found == 0) | np.isnan(found), np.float32(1), found)
        codes = values / steps[..., None] + np.float32(zero_point_middle(bits))
        return symmetric_blocks(codes.astype(np.uint8), found, bits)

    return BlockType(bits, size, False, unpack)


_TYPES: Mapping[str, BlockType] = {
    "Q4_0": BlockType(4, 32, False, _q4_0),
    "Q4_1": BlockType(4, 32, True, _q4_1),
    "Q4_K": BlockType(4, 32, True, _q4_k),
    "Q5_0": BlockType(8, 32, False, _q5_0),
    "Q5_1": BlockType(8, 32, True, _q5_1),
    "Q5_K": BlockType(8, 32, True, _q5_k),
    "Q8_0": BlockType(8, 32, False, _q8_0),
    "Q2_K": BlockType(4, 16, True, _q2_k),
    "Q3_K": _by_value("Q3_K", 4, 16, scales_of.q3_k),
    "Q6_K": _by_value("Q6_K", 8, 16, scales_of.q6_k),
    "TQ1_0": _by_value("TQ1_0", 2, 128, scales_of.tq1_0),
    "TQ2_0": BlockType(2, 128, False, _tq2_0),
    "MXFP4": _by_value("MXFP4", 8, 32, scales_of.mxfp4),
    "NVFP4": _by_value("NVFP4", 8, 16, scales_of.nvfp4),
    "IQ4_NL": _by_value("IQ4_NL", 8, 32, scales_of.iq4_nl),
    "IQ4_XS": _by_value("IQ4_XS", 8, 32, scales_of.iq4_xs),
    "IQ1_S": _by_value("IQ1_S", 8, 32, scales_of.iq1_s),
    "IQ1_M": _by_value("IQ1_M", 8, 16, scales_of.iq1_m),
    "IQ2_XXS": _by_value("IQ2_XXS", 8, 32, scales_of.iq2_xxs),
    "IQ2_XS": _by_value("IQ2_XS", 8, 16, scales_of.iq2_xs),
    "IQ2_S": _by_value("IQ2_S", 8, 16, scales_of.iq2_s),
    "IQ3_XXS": _by_value("IQ3_XXS", 8, 32, scales_of.iq3_xxs),
    "IQ3_S": _by_value("IQ3_S", 8, 32, scales_of.iq3_s),
}

BLOCK_DTYPES = tuple(sorted(_TYPES))
"""GGUF's names of the block types."""
