"""Rows of tokens -> batches of like lengths, for models that see each row in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Tokens of a batch, padding included: more would not be faster, and attention needs memory in
# proportion to the square of a row.
_BATCH_TOKENS = 4096


def batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Indices of rows that are run together: neighbours in length, so that few are padded.

    Args:
        lengths: tokens of each row.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index]):
        if batch and lengths[index] * (len(batch) + 1) > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def row_feeds(rows: Sequence[Sequence[int]], padding: int) -> dict[str, NDArray[Any]]:
    """The inputs ``input_ids`` and ``sequence_lengths`` of one batch.

    Args:
        rows: tokens; none is empty.
        padding: the token that fills up short rows.
    """
    lengths = np.array([len(row) for row in rows], dtype=np.int32)
    ids = np.full((len(rows), int(lengths.max())), padding, dtype=np.int64)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = row
    return {"input_ids": ids, "sequence_lengths": lengths}
