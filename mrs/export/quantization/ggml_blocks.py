"""Reading the blocks in which ggml stores quantized rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def split_blocks(rows: NDArray[np.uint8], block_bytes: int) -> NDArray[np.uint8]:
    """Rows ``[rows, bytes_per_row]`` as blocks ``[rows, blocks, block_bytes]``."""
    return rows.reshape(rows.shape[0], -1, block_bytes)


def float16_at(blocks: NDArray[np.uint8], at: int) -> NDArray[np.float32]:
    """The little-endian float16 at byte ``at`` of each block, ``[rows, blocks]``."""
    return np.ascontiguousarray(blocks[..., at : at + 2]).view("<f2")[..., 0].astype(np.float32)


def unpack_nibbles(packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Codes in ggml's order: low nibbles are the first half of a block, high ones the second."""
    return np.concatenate([packed & np.uint8(0x0F), packed >> np.uint8(4)], axis=-1)
