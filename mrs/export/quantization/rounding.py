"""Rounding of float32 weights to 8-bit blocks: ``w = scale * (code - zero_point)``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mrs.export.quantization.blocks import QuantizedBlocks
from mrs.export.quantization.steps import SMALLEST_STEP, reciprocals


def round_to_int8(values: NDArray[np.float32], block_size: int) -> QuantizedBlocks:
    """Round float32 ``[rows, columns]`` to the finest grid per block that covers it and contains 0.

    The error of a weight is at most half a step, ``(max - min) / 510`` of its block. A block that
    spans less than 3e-36 becomes zeros; one with NaN or infinity gets such a scale.
    """
    blocks = values.reshape(values.shape[0], -1, block_size)
    low = np.minimum(blocks.min(axis=-1), 0)
    high = np.maximum(blocks.max(axis=-1), 0)
    # Divided one by one: the difference of two large values may overflow.
    scales = high / np.float32(255) - low / np.float32(255)
    scales[scales < SMALLEST_STEP] = 0
    inverse = reciprocals(scales)
    zero_points = np.rint(-low * inverse)
    codes = np.rint(blocks * inverse[..., None])
    codes += zero_points[..., None]
    np.clip(codes, 0, 255, out=codes)
    return QuantizedBlocks(8, codes.astype(np.uint8), scales, zero_points.astype(np.uint8))
