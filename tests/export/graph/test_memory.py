"""An export must not need the model's size in memory: matrices pass through in chunks."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.matrix_choices import auto, fp32, keep, q8
from mrs.export.graph.weight_file import WeightFile
from tests.export.gguf_files import StoredTensor
from tests.export.graph.one_matrix import Part, Store, row_sources, stored_by

COLUMNS = 1024


def peak_bytes(folder: Path, store: Store, dtype: str, block_bytes: int, rows: int) -> int:
    """The most memory that storing a matrix of zeros takes at any time."""
    blocks = np.zeros((rows, COLUMNS // 32 * block_bytes), dtype=np.uint8)
    parts = row_sources([Part(StoredTensor(dtype, blocks))])
    with WeightFile(folder / f"{rows}.data") as weight_file:
        tracemalloc.start()
        try:
            store(GraphBuilder(weight_file), "w", parts)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(
    ("store", "dtype", "block_bytes", "kept"),
    [
        (stored_by(fp32), "Q8_0", 34, 0.01),
        # Scales, zero points and offsets wait for the codes, and are put together one by one.
        (stored_by(q8), "Q8_0", 34, 0.32),
        (stored_by(auto), "Q4_1", 20, 0.34),
        (stored_by(keep), "Q4_1", 20, 0.45),
    ],
    ids=["float32", "int8", "offset columns", "offsets"],
)
def test_more_rows_need_hardly_more_memory(
    tmp_path: Path, store: Store, dtype: str, block_bytes: int, kept: float
) -> None:
    """Where a copy would need 4, 1 or 0.5 bytes for each weight more."""
    small, large = 8192, 24576
    peaks = [peak_bytes(tmp_path, store, dtype, block_bytes, rows) for rows in (small, large)]
    assert peaks[1] - peaks[0] < kept * (large - small) * COLUMNS
