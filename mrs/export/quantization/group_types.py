"""Types of this project's own: 4- or 8-bit codes in groups, as GPTQ and AWQ checkpoints hold them.

``GROUP4_128`` is a row of blocks, each with the float32 scale and the zero point (one byte) of 128
weights before their codes, which are packed as `bit_packing` does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from mrs.export.quantization.bit_packing import pack_codes, packed_size, unpack_codes
from mrs.export.quantization.blocks import Bytes, QuantizedBlocks

_NAME = re.compile(r"GROUP([48])_([1-9][0-9]{0,6})")
_HEADER = 5


@dataclass(frozen=True)
class GroupType:
    """Width of the codes, and how many weights of a row share a scale."""

    bits: int
    size: int

    @property
    def name(self) -> str:
        """As a tensor's ``dtype``."""
        return f"GROUP{self.bits}_{self.size}"

    @property
    def block_bytes(self) -> int:
        """Stored bytes of a group."""
        return _HEADER + packed_size(self.size, self.bits)


def parse_group_type(dtype: str) -> GroupType | None:
    """The type that a ``dtype`` names, or None if it is none of these."""
    match = _NAME.fullmatch(dtype)
    return GroupType(int(match[1]), int(match[2])) if match else None


def pack_groups(blocks: QuantizedBlocks) -> Bytes:
    """Stored rows, uint8 ``[rows, bytes_per_row]``, of blocks without offsets."""
    scales = np.ascontiguousarray(blocks.scales, dtype="<f4")[..., None].view(np.uint8)
    codes = pack_codes(blocks.codes, blocks.bits)
    stored = np.concatenate([scales, blocks.zero_points[..., None], codes], axis=-1)
    return stored.reshape(len(stored), -1)


def unpack_groups(rows: Bytes, group: GroupType) -> QuantizedBlocks:
    """The reverse of `pack_groups`."""
    stored = rows.reshape(rows.shape[0], -1, group.block_bytes)
    return QuantizedBlocks(
        bits=group.bits,
        codes=unpack_codes(stored[..., _HEADER:], group.bits, group.size),
        scales=np.ascontiguousarray(stored[..., :4]).view("<f4")[..., 0].astype(np.float32),
        zero_points=stored[..., 4].copy(),
    )
