"""Rows of a checkpoint matrix, read a few megabytes at a time and in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from mrs.errors import CorruptCheckpointError
from mrs.export.checkpoints.checkpoint import Checkpoint
from mrs.export.graph.ordered_map import ordered_map
from mrs.export.quantization.dequantize import check_readable, dequantize

# Work per chunk, in weights: bounds the float32 copy of a chunk to a few megabytes.
_CHUNK_WEIGHTS = 1 << 20

_HINT = "Download the model again, or convert it with a current converter."


class Blocks(Protocol):
    """Rows in a block format."""

    def is_finite(self) -> bool:
        """Whether every value that the blocks stand for is a finite number."""


AnyBlocks = TypeVar("AnyBlocks", bound=Blocks)


@dataclass(frozen=True)
class Chunk:
    """Some rows as the checkpoint stores them.

    Attributes:
        stored: uint8 ``[rows, bytes_per_row]``.
        dtype: their storage type.
        rows: which rows of the graph's matrix they are.
    """

    stored: NDArray[np.uint8]
    dtype: str
    rows: range


@dataclass(frozen=True)
class RowSource:
    """A matrix ``[rows, columns]`` of the checkpoint.

    Attributes:
        checkpoint: where it is.
        name: tensor name.
        dtype: storage type.
        rows: number of rows.
        columns: number of columns.
        order: for each row of the graph's matrix the checkpoint's row, or None if they agree. It
            may leave rows out.
    """

    checkpoint: Checkpoint
    name: str
    dtype: str
    rows: int
    columns: int
    order: NDArray[np.int64] | None = None

    def chunks(self) -> Iterator[NDArray[np.uint8]]:
        """Stored bytes, ``[some rows, bytes_per_row]`` at a time, in the graph's order."""
        return map(self._read, self._steps())

    def _steps(self) -> Iterator[range]:
        step = max(1, _CHUNK_WEIGHTS // self.columns)
        for start in range(0, self.rows, step):
            yield range(start, min(start + step, self.rows))

    def _read(self, rows: range) -> NDArray[np.uint8]:
        if self.order is None:
            return self.checkpoint.read_rows(self.name, rows.start, rows.stop)
        wanted = self.order[rows.start : rows.stop]
        first = int(wanted.min())
        return self.checkpoint.read_rows(self.name, first, int(wanted.max()) + 1)[wanted - first]

    def float_chunks(self) -> Iterator[NDArray[np.float32]]:
        """Dequantized values, ``[some rows, columns]`` at a time, in the graph's order.

        Raises:
            CorruptCheckpointError: one is NaN or infinite.
        """
        for chunk in self.chunks():
            yield _finite_values(chunk, self.dtype, self.name)

    def block_chunks(self, encode: Callable[[Chunk], AnyBlocks]) -> Iterator[AnyBlocks]:
        """Some rows at a time in a block format, in the graph's order, encoded on all cores.

        Raises:
            CorruptCheckpointError: a value is NaN or infinite.
        """

        def encoded(rows: range) -> AnyBlocks:
            with np.errstate(all="ignore"):
                blocks = encode(Chunk(self._read(rows), self.dtype, rows))
            if not blocks.is_finite():
                raise _not_finite(self.name)
            return blocks

        return ordered_map(encoded, self._steps())


def matrix(checkpoint: Checkpoint, name: str, shape: tuple[int, int]) -> RowSource:
    """The rows of a matrix that must exist with this shape.

    Raises:
        CorruptCheckpointError: it is missing, or has another shape.
        UnsupportedTensorTypeError: its storage type cannot be read.
    """
    dtype = _check(checkpoint, name, shape)
    return RowSource(checkpoint, name, dtype, *shape)


def expert_rows(checkpoint: Checkpoint, name: str, shape: tuple[int, int, int]) -> RowSource:
    """The rows of all experts below one another, of a tensor ``[experts, rows, columns]``.

    Raises:
        CorruptCheckpointError: it is missing, or has another shape.
        UnsupportedTensorTypeError: its storage type cannot be read.
    """
    dtype = _check(checkpoint, name, shape)
    experts, rows, columns = shape
    return RowSource(checkpoint, name, dtype, experts * rows, columns)


def vector(checkpoint: Checkpoint, name: str, length: int) -> NDArray[np.float32]:
    """A 1-D tensor that must exist with this length, dequantized.

    Raises:
        CorruptCheckpointError: it is missing, has another shape, or holds NaN or infinity.
        UnsupportedTensorTypeError: its storage type cannot be read.
    """
    dtype = _check(checkpoint, name, (length,))
    return _finite_values(checkpoint.read_rows(name, 0, 1), dtype, name).reshape(length)


def _finite_values(rows: NDArray[np.uint8], dtype: str, name: str) -> NDArray[np.float32]:
    with np.errstate(all="ignore"):
        values = dequantize(rows, dtype)
    if not np.isfinite(values).all():
        raise _not_finite(name)
    return values


def _not_finite(name: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(f"The tensor {name!r} holds NaN or infinity.", hint=_HINT)


def _check(checkpoint: Checkpoint, name: str, shape: tuple[int, ...]) -> str:
    """The storage type of a tensor, after its presence, shape and type were checked."""
    info = checkpoint.tensors.get(name)
    if info is None:
        raise CorruptCheckpointError(
            f"The checkpoint lacks the tensor {name!r}.",
            hint=_HINT,
        )
    if info.shape != shape:
        raise CorruptCheckpointError(
            f"The tensor {name!r} has shape {list(info.shape)}; its metadata says {list(shape)}.",
            hint=_HINT,
        )
    check_readable(name, info.dtype)
    return info.dtype
