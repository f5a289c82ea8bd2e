"""Rows of a checkpoint matrix, read a few megabytes at a time and in any order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mrs.errors import CorruptCheckpointError
from mrs.export.checkpoints.checkpoint import Checkpoint
from mrs.export.quantization.dequantize import check_readable, dequantize

# Work per chunk, in weights: bounds the float32 copy of a chunk to a few megabytes.
_CHUNK_WEIGHTS = 1 << 20


@dataclass(frozen=True)
class RowSource:
    """A matrix ``[rows, columns]`` of the checkpoint.

    Attributes:
        checkpoint: where it is.
        name: tensor name.
        dtype: storage type.
        rows: number of rows.
        columns: number of columns.
        order: for each row of the graph's matrix the checkpoint's row, or None if they agree.
    """

    checkpoint: Checkpoint
    name: str
    dtype: str
    rows: int
    columns: int
    order: NDArray[np.int64] | None = None

    def chunks(self) -> Iterator[NDArray[np.uint8]]:
        """Stored bytes, ``[some rows, bytes_per_row]`` at a time, in the graph's order."""
        step = max(1, _CHUNK_WEIGHTS // self.columns)
        for start in range(0, self.rows, step):
            stop = min(start + step, self.rows)
            if self.order is None:
                yield self.checkpoint.read_rows(self.name, start, stop)
            else:
                whole = self.checkpoint.read_rows(self.name, 0, self.rows)
                yield whole[self.order[start:stop]]

    def float_chunks(self) -> Iterator[NDArray[np.float32]]:
        """Dequantized values, ``[some rows, columns]`` at a time, in the graph's order."""
        for chunk in self.chunks():
            yield dequantize(chunk, self.dtype)


def matrix(checkpoint: Checkpoint, name: str, shape: tuple[int, int]) -> RowSource:
    """The rows of a matrix that must exist with this shape.

    Raises:
        CorruptCheckpointError: it is missing, or has another shape.
        UnsupportedTensorTypeError: its storage type cannot be read.
    """
    dtype = _check(checkpoint, name, shape)
    return RowSource(checkpoint, name, dtype, *shape)


def vector(checkpoint: Checkpoint, name: str, length: int) -> NDArray[np.float32]:
    """A 1-D tensor that must exist with this length, dequantized.

    Raises:
        CorruptCheckpointError: it is missing, or has another shape.
        UnsupportedTensorTypeError: its storage type cannot be read.
    """
    dtype = _check(checkpoint, name, (length,))
    return dequantize(checkpoint.read_rows(name, 0, 1), dtype).reshape(length)


def _check(checkpoint: Checkpoint, name: str, shape: tuple[int, ...]) -> str:
    """The storage type of a tensor, after its presence, shape and type were checked."""
    info = checkpoint.tensors.get(name)
    if info is None:
        raise CorruptCheckpointError(
            f"The checkpoint lacks the tensor {name!r}.",
            hint="Download the model again, or convert it with a current converter.",
        )
    if info.shape != shape:
        raise CorruptCheckpointError(
            f"The tensor {name!r} has shape {list(info.shape)}; its metadata says {list(shape)}.",
            hint="Download the model again, or convert it with a current converter.",
        )
    check_readable(name, info.dtype)
    return info.dtype
