"""Stored bytes of a checkpoint tensor -> float32."""

from __future__ import annotations

import gguf
import numpy as np
from gguf.quants import dequantize as _gguf_dequantize
from numpy.typing import NDArray

from mrs.errors import UnsupportedTensorTypeError
from mrs.export.quantization.group_types import parse_group_type, unpack_groups

READABLE_DTYPES: frozenset[str] = frozenset(
    {
        "F32", "F16", "BF16",
        "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0",
        "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
        "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS",
        "TQ1_0", "TQ2_0", "MXFP4", "NVFP4",
    }
)  # fmt: skip


def check_readable(name: str, dtype: str) -> None:
    """Refuse a tensor whose storage type cannot be read.

    Raises:
        UnsupportedTensorTypeError: naming the tensor, its type and the readable types.
    """
    if dtype not in READABLE_DTYPES and parse_group_type(dtype) is None:
        raise UnsupportedTensorTypeError(
            f"The tensor {name!r} is stored as {dtype}; readable types are "
            f"{', '.join(sorted(READABLE_DTYPES))}.",
            hint="Export another quantization of the same model.",
        )


def dequantize(rows: NDArray[np.uint8], dtype: str) -> NDArray[np.float32]:
    """Dequantize stored rows.

    Args:
        rows: uint8 ``[rows, bytes_per_row]``.
        dtype: GGUF type name, one of `READABLE_DTYPES`, or a `GroupType`.

    Returns:
        float32 ``[rows, columns]``, the values that ggml computes for these bytes.
    """
    if dtype == "F32":
        return rows.view("<f4")
    if dtype == "F16":
        return rows.view("<f2").astype(np.float32)
    group = parse_group_type(dtype)
    if group is not None:
        return unpack_groups(rows, group).dequantize()
    values: NDArray[np.float32] = _gguf_dequantize(rows, gguf.GGMLQuantizationType[dtype])
    return values
