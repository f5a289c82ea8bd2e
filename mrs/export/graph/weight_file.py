"""The external-data file of an ONNX model, written one tensor at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

# Large tensors start on a page of their own, so that ONNX Runtime maps them without a copy.
_PAGE = 4096
_CACHE_LINE = 64


@dataclass(frozen=True)
class StoredTensor:
    """Bytes in the weight file: where they are, and nothing of what they mean."""

    offset: int
    length: int


class WeightFile:
    """Appends raw tensors to one file and hands out references to them.

    Nothing is kept in memory: each chunk is written as it comes. Use as a context manager; on
    leaving, the file is closed.

    Args:
        path: the file to create; its name becomes the ``location`` of the references.

    Raises:
        OSError: the file cannot be written (the pipeline turns it into a `StorageError`).
    """

    def __init__(self, path: Path) -> None:
        self._location = path.name
        self._file = path.open("xb")
        self._end = 0

    def __enter__(self) -> WeightFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._end

    def append(self, chunks: Iterable[NDArray[Any]], length: int) -> StoredTensor:
        """Write one tensor given in chunks along its first dimension.

        Raises:
            ValueError: the chunks do not add up to ``length`` bytes.
        """
        offset = self._pad(_PAGE if length >= _PAGE else _CACHE_LINE)
        for chunk in chunks:
            self._end += self._file.write(np.ascontiguousarray(chunk).data)
        if self._end - offset != length:
            raise ValueError(f"tensor has {self._end - offset} bytes, announced were {length}")
        return StoredTensor(offset, length)

    def tensor(
        self, stored: StoredTensor, name: str, dtype: ir.DataType, shape: tuple[int, ...]
    ) -> ir.ExternalTensor:
        """A reference to stored bytes; several references may share the same bytes."""
        return ir.ExternalTensor(
            location=self._location,
            offset=stored.offset,
            length=stored.length,
            dtype=dtype,
            shape=ir.Shape(shape),
            name=name,
        )

    def _pad(self, alignment: int) -> int:
        gap = -self._end % alignment
        self._end += self._file.write(bytes(gap))
        return self._end
