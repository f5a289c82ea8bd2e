"""Blocks with any scale that a file can hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType
from numpy.typing import NDArray

from tests.export.gguf_files import StoredTensor


def finite_float16(rng: np.random.Generator, shape: Sequence[int]) -> NDArray[np.float16]:
    """Any finite float16, all bit patterns alike: both signs, zeros, tiny and large ones."""
    bits = rng.integers(0, 0x7C00, shape, dtype=np.uint16)
    bits |= rng.integers(0, 2, shape, dtype=np.uint16) << np.uint16(15)
    return bits.view(np.float16)


def any_blocks(
    dtype: str, rows: int, columns: int, seed: int = 0, *, halves: Sequence[int] = (0,)
) -> StoredTensor:
    """Random bytes, and finite float16 values where ``halves`` says that a block has them."""
    rng = np.random.default_rng(seed)
    block_size, block_bytes = gguf.GGML_QUANT_SIZES[GGMLQuantizationType[dtype]]
    shape: tuple[Any, ...] = (rows, columns // block_size)
    blocks = rng.integers(0, 256, (*shape, block_bytes), dtype=np.uint8)
    for at in halves:
        blocks[..., at : at + 2] = finite_float16(rng, shape)[..., None].view(np.uint8)
    return StoredTensor(dtype, blocks.reshape(rows, -1))
