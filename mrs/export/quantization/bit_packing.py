"""Codes of 2, 4 or 8 bits in bytes, in the order of MatMulNBits: the first code lowest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def packed_size(codes: int, bits: int) -> int:
    """Bytes that so many codes take."""
    return -(-codes * bits // 8)


def pack_codes(codes: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Pack codes along the last axis; the last byte is filled up with zeros.

    Args:
        codes: uint8 ``[..., n]``, each below ``2 ** bits``.
        bits: 2, 4 or 8.

    Returns:
        uint8 ``[..., packed_size(n, bits)]``.
    """
    per_byte = 8 // bits
    if per_byte == 1:
        return codes
    missing = -codes.shape[-1] % per_byte
    if missing:
        codes = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, missing)])
    packed = codes[..., 0::per_byte].copy()
    for place in range(1, per_byte):
        packed |= codes[..., place::per_byte] << np.uint8(bits * place)
    return packed


def unpack_codes(packed: NDArray[np.uint8], bits: int, codes: int) -> NDArray[np.uint8]:
    """The reverse of `pack_codes`: uint8 ``[..., codes]``."""
    places = np.arange(0, 8, bits, dtype=np.uint8)
    spread = (packed[..., None] >> places) & np.uint8(2**bits - 1)
    return spread.reshape(*packed.shape[:-1], -1)[..., :codes]
