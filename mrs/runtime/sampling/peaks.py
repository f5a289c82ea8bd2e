"""The largest numbers of a long row, without sorting it or looking at all of it twice.

The row is laid out as a grid; the maxima of its columns say which columns can hold anything large.
One pass finds them, and whatever is asked afterwards reads a few columns. The k-th largest of the
maxima is a lower bound of the k-th largest number: so many columns hold one that is no smaller.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

_DEPTH = 128
_SMALLEST = _DEPTH * _DEPTH
"""Shorter rows are read as a whole."""

# Beyond this share of the columns, reading the row as a whole is faster.
_FEW_COLUMNS = 1 / 16
# The 64-bit sort has a fixed cost, and then is several times faster than a stable one.
_FEW_NUMBERS = 600


class Peaks:
    """A row, and where in it large numbers are.

    Args:
        numbers: float32 ``[n]``; not changed, and not to be changed by others in the meantime.
    """

    def __init__(self, numbers: NDArray[np.float32]) -> None:
        self._numbers = numbers
        self._width = len(numbers) // _DEPTH if len(numbers) >= _SMALLEST else 0

    @cached_property
    def _grid(self) -> NDArray[np.float32]:
        return self._numbers[: _DEPTH * self._width].reshape(_DEPTH, self._width)

    @cached_property
    def _tail(self) -> NDArray[np.float32]:
        """What does not fill a row of the grid."""
        return self._numbers[_DEPTH * self._width :]

    @cached_property
    def _columns(self) -> NDArray[np.float32]:
        columns: NDArray[np.float32] = self._grid.max(axis=0)
        if len(self._tail):
            np.maximum(columns[: len(self._tail)], self._tail, out=columns[: len(self._tail)])
        return columns

    @cached_property
    def largest(self) -> float:
        """The largest number; NaN if there is one."""
        return float((self._columns if self._width else self._numbers).max())

    def at_least(self, floor: float) -> NDArray[np.int64]:
        """The places of all numbers that reach ``floor``, ascending."""
        bound = np.float32(floor)
        if float(bound) < floor:  # Rounded down: what equals it is too small.
            bound = np.nextafter(bound, np.float32(np.inf))
        if not self._width:
            return np.flatnonzero(self._numbers >= bound)
        columns = np.flatnonzero(self._columns >= bound)
        if len(columns) > _FEW_COLUMNS * self._width:
            return np.flatnonzero(self._numbers >= bound)
        found = np.flatnonzero(self._grid[:, columns] >= bound)
        rows, which = np.divmod(found, len(columns) or 1)
        places = rows * self._width + columns[which]
        last = np.flatnonzero(self._tail >= bound)
        return np.concatenate([places, last + self._grid.size]) if len(last) else places

    def top(self, k: int) -> NDArray[np.int64]:
        """The places of the ``k`` largest, in descending order; of equal ones the lower first."""
        numbers = self._numbers
        if not 0 < k < len(numbers):
            return np.arange(0) if k <= 0 else descending(numbers)
        if k <= self._width:
            floor = np.partition(self._columns, self._width - k)[self._width - k]
        else:
            floor = np.partition(numbers, len(numbers) - k)[len(numbers) - k]
        places = self.at_least(float(floor))
        return places[descending(numbers[places])[:k]]


def descending(numbers: NDArray[np.float32]) -> NDArray[np.int64]:
    """The order from the largest number to the smallest; of equal ones the first comes first."""
    if len(numbers) < _FEW_NUMBERS:
        return np.argsort(-numbers, kind="stable")
    # As whole numbers, floats order like their bits but for the sign. The place makes keys unique.
    bits = (np.float32(0) - numbers).view(np.int32)  # Of both zeros, 0.
    bits ^= (bits >> 31) & np.int32(0x7FFFFFFF)
    keys = bits.astype(np.int64) << 32
    keys |= np.arange(len(numbers))
    keys.sort()
    keys &= 0xFFFFFFFF
    return keys
