"""Arrays of a GGUF header, which become Python lists only when they are asked for.

A list takes up to 40 times the bytes of its array. Until one is asked for, an array takes what it
takes in the file, and no file can make a reader that never asks for its arrays pay for them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mrs.export.checkpoints.checkpoint import MetadataValue

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class NumberArray:
    """Numbers or truth values."""

    values: NDArray[np.generic]

    def decode(self) -> list[bool] | list[int] | list[float]:
        """The values as a list."""
        numbers: list[bool] | list[int] | list[float] = self.values.tolist()
        return numbers


@dataclass(frozen=True, slots=True)
class StringArray:
    """Strings as the file holds them: each a length and its bytes.

    Attributes:
        data: lengths and bytes, which were found to be whole.
        count: number of strings.
        errors: what becomes of bytes that are not UTF-8.
    """

    data: bytes
    count: int
    errors: str

    def decode(self) -> list[str]:
        """The strings as a list."""
        data, unpack, errors = self.data, _LENGTH.unpack_from, self.errors
        strings: list[str] = []
        position = 0
        for _ in range(self.count):
            start = position + _LENGTH.size
            position = start + unpack(data, position)[0]
            strings.append(data[start:position].decode("utf-8", errors))
        return strings


class LazyMetadata(Mapping[str, MetadataValue]):
    """Metadata whose arrays are decoded, once, when they are asked for."""

    def __init__(self) -> None:
        self._values: dict[str, MetadataValue | NumberArray | StringArray] = {}

    def add(self, key: str, value: MetadataValue | NumberArray | StringArray) -> None:
        """Add an entry."""
        self._values[key] = value

    def length(self, key: str) -> int:
        """Elements of an array, which is not decoded for that; 0 if there is no such array."""
        value = self._values.get(key)
        if isinstance(value, StringArray):
            return value.count
        if isinstance(value, NumberArray):
            return len(value.values)
        return len(value) if isinstance(value, list) else 0

    def __getitem__(self, key: str) -> MetadataValue:
        value = self._values[key]
        if isinstance(value, NumberArray | StringArray):
            value = self._values[key] = value.decode()
        return value

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
