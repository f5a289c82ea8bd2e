"""Block offsets as extra columns of a 4-bit matrix.

A weight matrix whose blocks carry offsets multiplies as

    x @ W.T  =  x @ Q.T  +  blocksum(x) @ offsets.T

where ``blocksum`` adds up each block of 32 activations. The second product is a matrix product
too, so the sums are appended to ``x`` as columns and the offsets to ``Q``, and one MatMulNBits
computes both. Four bits would be coarse for an offset. So the sums are appended several times:
the first copy holds the offset on a coarse grid, the last what that left over on a grid 15 times
finer, and those between nothing. An offset is then off by at most a 225th of the largest offset
that shares a block of columns with it: where that is half a step ``s``, by ``s / 450``.

A block of columns has one scale, so first and last copy must not meet in a block. That decides
the number of copies: two where the number of sums is a multiple of 32, three for most others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mrs.export.quantization.steps import reciprocals

BLOCK_SIZE = 32
# Beyond this the sums cost more than they save; only tiny matrices need so many.
MOST_COPIES = 4
_ZERO_POINT = 8
_LARGEST_CODE = 15


@dataclass(frozen=True)
class OffsetColumns:
    """Extra blocks for a 4-bit matrix.

    Attributes:
        codes: uint8 ``[rows, extra blocks, BLOCK_SIZE]``, values 0 to 15.
        scales: float32 ``[rows, extra blocks]``.
        zero_points: uint8 ``[rows, extra blocks]``.
        columns: how many of the columns are in use: copies times sums.
    """

    codes: NDArray[np.uint8]
    scales: NDArray[np.float32]
    zero_points: NDArray[np.uint8]
    columns: int

    def offsets(self, sums: int) -> NDArray[np.float32]:
        """The offsets ``[rows, sums]`` that the columns stand for."""
        centred = self.codes.astype(np.float32) - self.zero_points[..., None]
        values = (centred * self.scales[..., None]).reshape(self.codes.shape[0], -1)
        copies = values[:, : self.columns].reshape(self.codes.shape[0], -1, sums)
        total: NDArray[np.float32] = copies.sum(axis=1, dtype=np.float32)
        return total


def copies_of_sums(sums: int) -> int:
    """How often ``sums`` block sums must be appended so that first and last copy share no block."""
    whole = -(-sums // BLOCK_SIZE) * BLOCK_SIZE
    return -(-whole // sums) + 1


def encode_offsets(offsets: NDArray[np.float32]) -> OffsetColumns:
    """Encode offsets ``[rows, sums]`` as columns."""
    rows, sums = offsets.shape
    columns = copies_of_sums(sums) * sums
    blocks = -(-columns // BLOCK_SIZE)
    codes = np.full((rows, blocks * BLOCK_SIZE), _ZERO_POINT, dtype=np.uint8)
    scales = np.zeros((rows, blocks), dtype=np.float32)
    rest = offsets
    for start in (0, columns - sums):
        level, rest = _encode_level(rest, start, scales)
        codes[:, start : start + sums] = level
    return OffsetColumns(
        codes=codes.reshape(rows, blocks, BLOCK_SIZE),
        scales=scales,
        zero_points=np.full((rows, blocks), _ZERO_POINT, dtype=np.uint8),
        columns=columns,
    )


def _encode_level(
    values: NDArray[np.float32], start: int, scales: NDArray[np.float32]
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Codes for one copy that starts at column ``start``, and what they leave over.

    Sets the scales of the blocks that the copy touches.
    """
    block_of = (start + np.arange(values.shape[1])) // BLOCK_SIZE
    for block in np.unique(block_of):
        largest = np.abs(values[:, block_of == block]).max(axis=1)
        scales[:, block] = largest / np.float32(_LARGEST_CODE / 2)
    steps = scales[:, block_of]
    codes = np.clip(np.rint(values * reciprocals(steps)) + _ZERO_POINT, 0, _LARGEST_CODE)
    return codes.astype(np.uint8), values - (codes - _ZERO_POINT).astype(np.float32) * steps
