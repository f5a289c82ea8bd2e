"""The likeliest tokens of several rows at once.

The head of a row are its tokens whose logits reach a floor. To call an operation takes as long as
to carry it out on the head of one row: a batch is served by few operations over all of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mrs.runtime.sampling.candidates import Candidates
from mrs.runtime.sampling.peaks import Peaks, float32_from, sortable

# A row, a logit and a place are sorted as one number of 63 bits.
_ROWS_AT_ONCE = 16
_LOGIT_BITS, _PLACE_BITS = 32, 27


@dataclass(frozen=True)
class Head:
    """The tokens of a row whose logits reach ``floor``, the likeliest first, with their weights."""

    tokens: Candidates
    floor: float


def find_heads(rows: Sequence[tuple[Candidates, Iterable[float]]]) -> list[Head | None]:
    """The heads of rows of one vocabulary.

    Args:
        rows: all tokens of each, and floors, of which the first that few columns reach is taken.

    Returns:
        one for each row; None where no floor does, or the row is a short one.
    """
    found: list[Head | None] = [None] * len(rows)
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        searches = _searches(rows[first : first + _ROWS_AT_ONCE])
        for search, head in zip(searches, _read(searches), strict=True):
            found[first + search.row] = head
    return found


@dataclass(frozen=True)
class _Search:
    """The columns of a row that hold its head."""

    row: int
    candidates: Candidates
    peaks: Peaks
    floor: float
    columns: NDArray[np.int64]


def _searches(rows: Sequence[tuple[Candidates, Iterable[float]]]) -> list[_Search]:
    """Where to read, in the order of the rows."""
    searches = []
    for row, (candidates, floors) in enumerate(rows):
        peaks = candidates.peaks
        if peaks is None:
            continue
        for floor in floors:
            columns = peaks.columns_reaching(float32_from(floor))
            if columns is not None:
                searches.append(_Search(row, candidates, peaks, floor, columns))
                break
    return searches


def _read(searches: Sequence[_Search]) -> list[Head]:
    """Read the columns of rows, one after the other; compare, weigh and sort them all at once."""
    if not searches:
        return []
    rows, places, logits = _reaching(searches)
    keys = rows << (_LOGIT_BITS + _PLACE_BITS) | sortable(logits) << _PLACE_BITS | places
    order = keys.argsort()
    rows, places, logits = rows[order], places[order], logits[order]
    largest = np.array([np.float32(search.candidates.largest) for search in searches])
    scales = np.array([search.candidates.scale for search in searches])
    with np.errstate(over="ignore"):
        weights = np.exp((logits - largest[rows]) * scales[rows])
    ends = np.searchsorted(rows, np.arange(len(searches) + 1)).tolist()
    heads = []
    for number, search in enumerate(searches):
        part = slice(ends[number], ends[number + 1])
        tokens = search.candidates.weighed(places[part], logits[part], weights[part])
        heads.append(Head(tokens, search.floor))
    return heads


def _reaching(
    searches: Sequence[_Search],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Of all logits that reach the floor of their row: the row, the place in it, and the logit."""
    bounds = np.array([float32_from(search.floor) for search in searches])
    rows = np.repeat(np.arange(len(searches)), [len(search.columns) for search in searches])
    columns = np.concatenate([search.columns for search in searches])
    cells = np.concatenate([search.peaks.read(search.columns) for search in searches], axis=1)
    cell, which = np.nonzero(cells >= bounds[rows])
    places = cell * searches[0].peaks.width + columns[which]
    logits = cells[cell, which]
    rows = rows[which]
    tails = np.stack([search.peaks.tail for search in searches])
    if tails.size:
        row, which = np.nonzero(tails >= bounds[:, None])
        rows = np.concatenate([rows, row])
        places = np.concatenate([places, searches[0].peaks.size + which])
        logits = np.concatenate([logits, tails[row, which]])
    return rows, places, logits
