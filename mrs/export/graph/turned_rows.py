"""Stacked matrices of a checkpoint that are needed with rows for columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mrs.export.graph.row_source import RowSource
from mrs.export.quantization.dequantize import dequantize


def turned_rows(stacked: RowSource, count: int) -> RowSource:
    """Each of ``count`` matrices, which lie below one another, turned by itself.

    The rows are float32: blocks of a row's neighbours cannot be turned.
    """
    rows = stacked.rows // count
    return _TurnedRows(
        checkpoint=stacked.checkpoint,
        name=stacked.name,
        dtype="F32",
        rows=count * stacked.columns,
        columns=rows,
        stacked=stacked,
    )


@dataclass(frozen=True)
class _TurnedRows(RowSource):
    """Columns of the matrices as rows."""

    stacked: RowSource | None = None

    def _read(self, rows: range) -> NDArray[np.uint8]:
        assert self.stacked is not None and self.order is None
        height, width = self.columns, self.stacked.columns
        pieces = []
        for at in range(rows.start // width, -(-rows.stop // width)):
            first, last = max(rows.start - at * width, 0), min(rows.stop - at * width, width)
            stored = self.checkpoint.read_rows(self.name, at * height, (at + 1) * height)
            with np.errstate(all="ignore"):  # What is not finite is looked for by the reader.
                values = dequantize(stored, self.stacked.dtype)
            pieces.append(np.ascontiguousarray(values[:, first:last].T))
        return np.concatenate(pieces).view(np.uint8)
