"""The scales of ggml's blocks, as float32 ``[rows, blocks]``.

Each function takes stored rows, uint8 ``[rows, bytes_per_row]`` (the K types with a minimum: split
blocks). The products of float16 and small integers are exact in float32. Layouts: ggml-common.h.
"""

from __future__ import annotations

import numpy as np

from mrs.export.quantization.blocks import Bytes, Floats

_LOW, _SIX = np.uint8(0x0F), np.uint8(0x3F)
_FOUR = np.uint8(4)


def split_blocks(rows: Bytes, block_bytes: int) -> Bytes:
    """Rows ``[rows, bytes_per_row]`` as blocks ``[rows, blocks, block_bytes]``."""
    return rows.reshape(rows.shape[0], -1, block_bytes)


def float16_at(blocks: Bytes, at: int) -> Floats:
    """The little-endian float16 at byte ``at`` of each block, ``[rows, blocks]``."""
    return np.ascontiguousarray(blocks[..., at : at + 2]).view("<f2")[..., 0].astype(np.float32)


def q4_k(blocks: Bytes) -> tuple[Floats, Floats]:
    """Scales and minimums of Q4_K and Q5_K: eight 6-bit factors each of two halves."""
    first, second, third = blocks[..., 4:8], blocks[..., 8:12], blocks[..., 12:16]
    two = np.uint8(6)
    scales = np.concatenate([first & _SIX, (third & _LOW) | ((first >> two) << _FOUR)], axis=-1)
    minimums = np.concatenate(
        [second & _SIX, (third >> _FOUR) | ((second >> two) << _FOUR)], axis=-1
    )
    return _factors(float16_at(blocks, 0), scales), _factors(float16_at(blocks, 2), minimums)


def q2_k(blocks: Bytes) -> tuple[Floats, Floats]:
    """Scales and minimums of Q2_K: sixteen 4-bit factors each of two halves."""
    packed = blocks[..., :16]
    scales, minimums = packed & _LOW, packed >> _FOUR
    return _factors(float16_at(blocks, 80), scales), _factors(float16_at(blocks, 82), minimums)


def q3_k(rows: Bytes) -> Floats:
    """Sixteen 6-bit factors: four bits in eight bytes, two in four more."""
    blocks = split_blocks(rows, 110)
    low, high = blocks[..., 96:104], blocks[..., 104:108]
    four_bits = np.concatenate([low & _LOW, low >> _FOUR], axis=-1)
    two_bits = np.concatenate([(high >> np.uint8(at)) & np.uint8(3) for at in (0, 2, 4, 6)], -1)
    factors = (four_bits | (two_bits << _FOUR)).astype(np.float32) - np.float32(32)
    return _factors(float16_at(blocks, 108), factors)


def q6_k(rows: Bytes) -> Floats:
    """Sixteen int8 factors."""
    blocks = split_blocks(rows, 210)
    return _factors(float16_at(blocks, 208), blocks[..., 192:208].view(np.int8))


def tq1_0(rows: Bytes) -> Floats:
    """One scale for 256 weights, twice: the blocks here have 128."""
    return np.repeat(float16_at(split_blocks(rows, 54), 52), 2, axis=-1)


def tq2_0(rows: Bytes) -> Floats:
    """As `tq1_0`."""
    return np.repeat(float16_at(split_blocks(rows, 66), 64), 2, axis=-1)


def mxfp4(rows: Bytes) -> Floats:
    """A power of two; the values are halves, counted as integers (OCP MX v1.0, E8M0 and E2M1)."""
    exponents = split_blocks(rows, 17)[..., 0].astype(np.int32)
    return np.ldexp(np.float32(1), exponents - 128).astype(np.float32)


def nvfp4(rows: Bytes) -> Floats:
    """Four unsigned E4M3 scales for 16 weights each; the values are halves, as in `mxfp4`."""
    packed = split_blocks(rows, 36)[..., :4].reshape(rows.shape[0], -1)
    exponent, mantissa = (packed >> np.uint8(3)) & _LOW, packed & np.uint8(7)
    normal = np.ldexp(1 + mantissa / 8, exponent.astype(np.int32) - 7)
    values = np.where(exponent == 0, mantissa * 2.0**-9, normal) / 2
    values[(packed == 0) | (packed == 0x7F)] = 0
    return values.astype(np.float32)


def iq4_nl(rows: Bytes) -> Floats:
    """One float16 each."""
    return float16_at(split_blocks(rows, 18), 0)


def iq4_xs(rows: Bytes) -> Floats:
    """Eight 6-bit factors: four bits in four bytes, two in a word before them."""
    blocks = split_blocks(rows, 136)
    word = np.ascontiguousarray(blocks[..., 2:4]).view("<u2")
    high = (word >> np.arange(0, 16, 2, dtype=np.uint16)) & np.uint16(3)
    factors = (_nibble_pairs(blocks[..., 4:8]) | (high << 4)).astype(np.float32)
    return _factors(float16_at(blocks, 0), factors - np.float32(32))


def iq1_s(rows: Bytes) -> Floats:
    """An eighth of a 3-bit factor: the values are -1, 0 or 1, moved by an eighth."""
    blocks = split_blocks(rows, 50)
    words = np.ascontiguousarray(blocks[..., 34:50]).view("<u2")
    factors = 2 * ((words >> np.uint16(12)) & np.uint16(7)) + 1
    return _factors(float16_at(blocks, 0), factors.astype(np.float32) / 8)


def iq1_m(rows: Bytes) -> Floats:
    """As `iq1_s`; four words hold twelve bits of factors each, and a quarter of the scale."""
    words = np.ascontiguousarray(split_blocks(rows, 56)[..., 48:56]).view("<u2")
    quarters = (words & np.uint16(0xF000)) >> np.array([12, 8, 4, 0], dtype=np.uint16)
    scale = np.bitwise_or.reduce(quarters, axis=-1).astype("<u2").view("<f2").astype(np.float32)
    factors = (words[..., None] >> np.array([0, 3, 6, 9], dtype=np.uint16)) & np.uint16(7)
    factors = (2 * factors + 1).reshape(*scale.shape, 16).astype(np.float32)
    return _factors(scale, factors / 8)


def iq2_xxs(rows: Bytes) -> Floats:
    """Factors in the top four bits of every second word."""
    blocks = split_blocks(rows, 66)
    words = np.ascontiguousarray(blocks[..., 2:]).view("<u4")[..., 1::2]
    return _halves(float16_at(blocks, 0), words >> np.uint32(28), 4)


def iq2_xs(rows: Bytes) -> Floats:
    """Sixteen 4-bit factors in eight bytes."""
    blocks = split_blocks(rows, 74)
    return _halves(float16_at(blocks, 0), _nibble_pairs(blocks[..., 66:74]), 4)


def iq2_s(rows: Bytes) -> Floats:
    """As `iq2_xs`."""
    blocks = split_blocks(rows, 82)
    return _halves(float16_at(blocks, 0), _nibble_pairs(blocks[..., 74:82]), 4)


def iq3_xxs(rows: Bytes) -> Floats:
    """Factors in the top four bits of eight words."""
    blocks = split_blocks(rows, 98)
    words = np.ascontiguousarray(blocks[..., 66:98]).view("<u4")
    return _halves(float16_at(blocks, 0), words >> np.uint32(28), 2)


def iq3_s(rows: Bytes) -> Floats:
    """Eight odd factors from four bits each."""
    blocks = split_blocks(rows, 110)
    factors = 1 + 2 * _nibble_pairs(blocks[..., 106:110]).astype(np.float32)
    return _factors(float16_at(blocks, 0), factors)


def _factors(scales: Floats, factors: np.ndarray) -> Floats:
    """Super-blocks' scales times the factors of their blocks, ``[rows, all blocks]``."""
    product = scales[..., None] * factors.astype(np.float32)
    return product.reshape(scales.shape[0], -1)


def _halves(scales: Floats, factors: np.ndarray, divisor: int) -> Floats:
    return _factors(scales, (np.float32(0.5) + factors.astype(np.float32)) / np.float32(divisor))


def _nibble_pairs(packed: Bytes) -> Bytes:
    """Low and high nibble of each byte in turn."""
    return np.stack([packed & _LOW, packed >> _FOUR], axis=-1).reshape(*packed.shape[:-1], -1)
