"""The largest numbers of a long row, without sorting it or looking at all of it twice.

The row is laid out as a grid; the maxima of its columns say which columns can hold anything large.
One pass finds them, and whatever is asked afterwards reads a few columns. The k-th largest of the
maxima is a lower bound of the k-th largest number: so many columns hold one that is no smaller.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

_DEPTH = 32
_SMALLEST = 1 << 14
"""Shorter rows are read as a whole."""

# Beyond this share of the columns, reading the row as a whole is faster.
_FEW_COLUMNS = 1 / 16
# The 64-bit sort has a fixed cost, and then is several times faster than a stable one.
_FEW_NUMBERS = 600


class Peaks:
    """A row, and where in it large numbers are.

    Args:
        numbers: float32 ``[n]``; not changed, and not to be changed by others in the meantime.

    Attributes:
        width: columns of the grid; 0 for a short row, which is not laid out as one.
        size: how many numbers the grid has.
        tail: the numbers behind the grid, which do not fill a row of it.
    """

    def __init__(self, numbers: NDArray[np.float32]) -> None:
        self._numbers = numbers
        self.width = len(numbers) // _DEPTH if len(numbers) >= _SMALLEST else 0
        self.size = _DEPTH * self.width
        self.tail = numbers[self.size :]
        self._grid = numbers[: self.size].reshape(_DEPTH, self.width)

    @cached_property
    def columns(self) -> NDArray[np.float32]:
        """The largest number of each column."""
        columns: NDArray[np.float32] = self._grid.max(axis=0)
        if len(self.tail):
            np.maximum(columns[: len(self.tail)], self.tail, out=columns[: len(self.tail)])
        return columns

    def columns_reaching(self, bound: np.float32) -> NDArray[np.int64] | None:
        """The columns that hold a number of at least ``bound``.

        None where reading the row as a whole is faster than reading so many.
        """
        if not self.width:
            return None
        columns = np.flatnonzero(self.columns >= bound)
        return columns if len(columns) <= _FEW_COLUMNS * self.width else None

    @property
    def cells(self) -> int:
        """How many numbers a column has at most."""
        return _DEPTH + bool(len(self.tail))

    def read(self, columns: NDArray[np.int64]) -> NDArray[np.float32]:
        """What these columns hold, ``[rows of the grid, columns]``."""
        return self._grid.take(columns, axis=1)

    def place(self, column: int, cell: int) -> int | None:
        """The place of a column's cell in the row; None where the column has fewer."""
        place = cell * self.width + column
        return place if place < len(self._numbers) else None

    @cached_property
    def largest(self) -> float:
        """The largest number; NaN if there is one."""
        return float((self.columns if self.width else self._numbers).max())

    def at_least(self, floor: float) -> NDArray[np.int64]:
        """The places of all numbers that reach ``floor``, ascending."""
        bound = float32_from(floor)
        columns = self.columns_reaching(bound)
        if columns is None:
            return np.flatnonzero(self._numbers >= bound)
        found = np.flatnonzero(self.read(columns) >= bound)
        rows, which = np.divmod(found, len(columns) or 1)
        places = rows * self.width + columns[which]
        last = np.flatnonzero(self.tail >= bound)
        return np.concatenate([places, last + self.size]) if len(last) else places

    def top_floor(self, k: int) -> float | None:
        """A number that ``k`` or a few more reach; None where it takes the whole row to tell."""
        if not 0 < k <= self.width:
            return None
        return float(np.partition(self.columns, self.width - k)[self.width - k])

    def top(self, k: int) -> NDArray[np.int64]:
        """The places of the ``k`` largest, in descending order; of equal ones the lower first."""
        numbers = self._numbers
        if not 0 < k < len(numbers):
            return np.arange(0) if k <= 0 else descending(numbers)
        floor = self.top_floor(k)
        if floor is None:
            floor = float(np.partition(numbers, len(numbers) - k)[len(numbers) - k])
        places = self.at_least(floor)
        return places[descending(numbers[places])[:k]]


def float32_from(floor: float) -> np.float32:
    """The least float32 that is no smaller."""
    bound = np.float32(floor)
    return bound if float(bound) >= floor else np.nextafter(bound, np.float32(np.inf))


def descending(numbers: NDArray[np.float32]) -> NDArray[np.int64]:
    """The order from the largest number to the smallest; of equal ones the first comes first."""
    if len(numbers) < _FEW_NUMBERS:
        return np.argsort(-numbers, kind="stable")
    keys = sortable(numbers) << 31  # The place makes keys unique.
    keys |= np.arange(len(numbers))
    keys.sort()
    keys &= (1 << 31) - 1
    return keys


def sortable(numbers: NDArray[np.float32]) -> NDArray[np.int64]:
    """Whole numbers of 32 bits, the smallest for the largest number, the same for both zeros."""
    # As whole numbers, floats order like their bits but for the sign.
    bits = (np.float32(0) - numbers).view(np.int32)  # Of both zeros, 0.
    bits ^= (bits >> 31) & np.int32(0x7FFFFFFF)
    keys = bits.astype(np.int64)
    keys += 1 << 31
    return keys
