"""Tensors that are made of stored ones without a copy of them: stacks, parts, transposes.

A view is read as a checkpoint's tensor is, some rows at a time. A row is one index of all
dimensions but the last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mrs.errors import CorruptCheckpointError
from mrs.export.checkpoints.checkpoint import TensorInfo

Bytes = NDArray[np.uint8]
ReadRows = Callable[[str, int, int], Bytes]

_ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2}


class TensorView(Protocol):
    """A tensor that can be read."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Outermost dimension first."""

    @property
    def dtype(self) -> str:
        """Storage type."""

    def read_rows(self, start: int, stop: int) -> Bytes:
        """Rows ``start:stop``, uint8 ``[rows, bytes_per_row]``."""


def count_rows(shape: tuple[int, ...]) -> int:
    """Rows of a tensor."""
    return math.prod(shape[:-1])


@dataclass(frozen=True)
class Stored:
    """A tensor as it is stored."""

    info: TensorInfo
    read: ReadRows

    @property
    def shape(self) -> tuple[int, ...]:
        """As stored."""
        return self.info.shape

    @property
    def dtype(self) -> str:
        """As stored."""
        return self.info.dtype

    def read_rows(self, start: int, stop: int) -> Bytes:
        """A view on the file where the reader can give one."""
        return self.read(self.info.name, start, stop)


@dataclass(frozen=True)
class Stack:
    """Tensors of equal shape and type, the first dimension telling which one.

    Raises:
        CorruptCheckpointError: shapes or types differ.
    """

    members: Sequence[Stored]

    def __post_init__(self) -> None:
        first = self.members[0]
        for other in self.members[1:]:
            if (other.shape, other.dtype) != (first.shape, first.dtype):
                raise CorruptCheckpointError(
                    f"The tensors {first.info.name!r:.120} and {other.info.name!r:.120} differ in "
                    "shape or type.",
                    hint="Download the model again.",
                )

    @property
    def shape(self) -> tuple[int, ...]:
        """``[members, ...]``."""
        return (len(self.members), *self.members[0].shape)

    @property
    def dtype(self) -> str:
        """Of all members."""
        return self.members[0].dtype

    def read_rows(self, start: int, stop: int) -> Bytes:
        """Copied only where the rows are of several members."""
        count = count_rows(self.members[0].shape)
        pieces = [
            member.read_rows(max(start - at * count, 0), min(stop - at * count, count))
            for at, member in enumerate(self.members)
            if start < (at + 1) * count and stop > at * count
        ]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


@dataclass(frozen=True)
class Transposed:
    """Matrices with rows for columns; of a stack each matrix by itself.

    Raises:
        CorruptCheckpointError: it is no matrix of floats, nor a stack of such.
    """

    source: Stored

    def __post_init__(self) -> None:
        if len(self.source.shape) not in (2, 3) or self.source.dtype not in _ITEM_BYTES:
            raise CorruptCheckpointError(
                f"The tensor {self.source.info.name!r:.120} is {self.source.dtype} of shape "
                f"{list(self.source.shape)}; it should be a matrix of floats.",
                hint="Download the model again.",
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """The last two dimensions change places."""
        *stack, rows, columns = self.source.shape
        return (*stack, columns, rows)

    @property
    def dtype(self) -> str:
        """As stored."""
        return self.source.dtype

    def read_rows(self, start: int, stop: int) -> Bytes:
        """A copy, gathered from all rows of the matrices that the rows are columns of."""
        rows, columns = self.shape[-2:]
        item = _ITEM_BYTES[self.dtype]
        pieces = []
        for at in range(start // rows, -(-stop // rows)):
            first, last = max(start - at * rows, 0), min(stop - at * rows, rows)
            stored = self.source.read_rows(at * columns, (at + 1) * columns)
            turned = stored.view(f"<u{item}")[:, first:last].T
            pieces.append(np.ascontiguousarray(turned).view(np.uint8))
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


@dataclass(frozen=True)
class PartOfEach:
    """One of two equal parts of every matrix of a stack, ``[stack, 2 rows, columns]``.

    Attributes:
        source: the stack.
        part: 0 or 1.
        in_turn: rows of the parts alternate; else all of one part come before the other's.

    Raises:
        CorruptCheckpointError: the source has no such parts.
    """

    source: TensorView
    part: int
    in_turn: bool

    def __post_init__(self) -> None:
        if len(self.source.shape) != 3 or self.source.shape[1] % 2:
            raise CorruptCheckpointError(
                f"A tensor of shape {list(self.source.shape)} should hold two matrices for each "
                "expert.",
                hint="Download the model again.",
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """``[stack, rows, columns]``."""
        stack, both, columns = self.source.shape
        return (stack, both // 2, columns)

    @property
    def dtype(self) -> str:
        """Of the source."""
        return self.source.dtype

    def read_rows(self, start: int, stop: int) -> Bytes:
        """A view where the source gives one and the rows are of one matrix."""
        if self.in_turn:
            return self.source.read_rows(2 * start, 2 * stop)[self.part :: 2]
        rows = self.shape[1]
        pieces = []
        for at in range(start // rows, -(-stop // rows)):
            first, last = max(start - at * rows, 0), min(stop - at * rows, rows)
            offset = (2 * at + self.part) * rows
            pieces.append(self.source.read_rows(offset + first, offset + last))
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


@dataclass(frozen=True)
class PartOfRows:
    """One of two equal parts of every row of floats, ``[stack, 2 columns]``; see `PartOfEach`."""

    source: TensorView
    part: int
    in_turn: bool

    def __post_init__(self) -> None:
        shape = self.source.shape
        if len(shape) != 2 or shape[1] % 2 or self.source.dtype not in _ITEM_BYTES:
            raise CorruptCheckpointError(
                f"A tensor {self.source.dtype} of shape {list(shape)} should hold two biases for "
                "each expert.",
                hint="Download the model again.",
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """``[stack, columns]``."""
        return (self.source.shape[0], self.source.shape[1] // 2)

    @property
    def dtype(self) -> str:
        """Of the source."""
        return self.source.dtype

    def read_rows(self, start: int, stop: int) -> Bytes:
        """A copy."""
        columns = self.shape[1]
        both = self.source.read_rows(start, stop).reshape(stop - start, 2 * columns, -1)
        first = self.part * columns
        part = both[:, self.part :: 2] if self.in_turn else both[:, first : first + columns]
        return np.ascontiguousarray(part).reshape(stop - start, -1)


@dataclass(frozen=True)
class Mxfp4:
    """MXFP4 as two tensors of bytes: codes ``[..., rows, blocks, 16]``, the first of a pair in the
    low half of a byte, and exponents ``[..., rows, blocks]``. Read in GGUF's layout of the type.

    Source: OCP Microscaling Formats (MX) Specification 1.0, section 5.3.3.

    Raises:
        CorruptCheckpointError: the two do not belong together.
    """

    codes: Stored
    exponents: Stored

    def __post_init__(self) -> None:
        wanted = (*self.exponents.shape, 16)
        types = (self.codes.dtype, self.exponents.dtype)
        if self.codes.shape != wanted or types != ("U8", "U8"):
            raise CorruptCheckpointError(
                f"The tensor {self.codes.info.name!r:.120} is {self.codes.dtype} of shape "
                f"{list(self.codes.shape)}; its exponents call for U8 of shape {list(wanted)}.",
                hint="Download the model again.",
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """``[..., rows, 32 blocks]``."""
        *rows, blocks = self.exponents.shape
        return (*rows, 32 * blocks)

    @property
    def dtype(self) -> str:
        """GGUF's name."""
        return "MXFP4"

    def read_rows(self, start: int, stop: int) -> Bytes:
        """A copy: the exponent of a block, then its codes, a byte holding code i and i + 16."""
        blocks = self.exponents.shape[-1]
        exponents = self.exponents.read_rows(start, stop).reshape(stop - start, blocks, 1)
        pairs = self.codes.read_rows(start * blocks, stop * blocks)
        codes = np.stack([pairs & np.uint8(0x0F), pairs >> np.uint8(4)], axis=-1)
        first, second = np.split(codes.reshape(stop - start, blocks, 32), 2, axis=-1)
        both = np.concatenate([exponents, first | second << np.uint8(4)], axis=-1)
        return both.reshape(stop - start, -1)
