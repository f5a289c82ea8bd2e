"""How much an error in each column of a matrix counts: the mean square of its activations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LEAST = 1e-4


@dataclass(frozen=True)
class TensorImportance:
    """The mean square of the activations that meet each column of a tensor.

    Attributes:
        values: float32 ``[experts, columns]``, above 0 and 1 on average over the columns; one row
            where the tensor is no stack of experts.
    """

    values: NDArray[np.float32]

    @classmethod
    def of_squares(cls, squares: NDArray[np.floating[Any]]) -> TensorImportance:
        """From sums or means of squared activations ``[experts, columns]``, not negative.

        A column that never had an activation counts a little, an expert that never had a token as
        if all its columns were alike.
        """
        means = squares.mean(axis=1, keepdims=True, dtype=np.float64)
        relative = np.divide(squares, means, out=np.ones(squares.shape), where=means > 0)
        return cls(np.maximum(relative, _LEAST).astype(np.float32))

    def of_rows(self, rows: range, total: int) -> NDArray[np.float32]:
        """The importance of some rows of a matrix that has ``total``, ``[rows or 1, columns]``."""
        if len(self.values) == 1:
            return self.values
        experts = np.arange(rows.start, rows.stop) // (total // len(self.values))
        return self.values[experts]
