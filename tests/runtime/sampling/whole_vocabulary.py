"""The chain as its definitions read: every filter looks at the whole vocabulary and sorts it.

Weights are the chain's own float32 ones; sums and everything else are float64. What is left over
is told by two sets: tokens that must be kept, and those that may be, where a sum is level with its
bound but for rounding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mrs.runtime.generation import SamplingParams

# Where shares differ by less, rounding decides.
LEVEL = 3e-6


def scaled(logits: NDArray[np.float32], temperature: float) -> NDArray[np.float64]:
    """Logarithms of the weights, 0 for the likeliest."""
    with np.errstate(over="ignore"):
        shifted = logits - logits.max()
        scaled: NDArray[np.float64] = (shifted * np.float32(1 / temperature)).astype(np.float64)
        return scaled


def by_likelihood(logits: NDArray[np.float32], kept: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The kept tokens, the likeliest first; of equal ones the lower ids first."""
    order = np.argsort(-logits, kind="stable")
    return order[kept[order]]


def bounds(
    logits: NDArray[np.float32], params: SamplingParams
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """The tokens that one filter of ``params`` must keep, and those that it may keep."""
    z = scaled(logits, params.temperature)
    shares = np.exp(z) / np.exp(z).sum()
    everything = np.ones(len(logits), dtype=bool)
    if params.top_k is not None:
        kept = ~everything
        kept[np.argsort(-logits, kind="stable")[: params.top_k]] = True
        return kept, kept
    if params.top_n_sigma is not None:
        wide = logits.astype(np.float64)
        deviation = wide[np.isfinite(wide)].std()
        floor = wide.max() - params.top_n_sigma * deviation
        slack = LEVEL * (deviation + abs(wide.max()))
        return wide >= floor + slack, wide >= floor - slack
    if params.min_p > 0:
        floor = np.log(params.min_p)
        slack = LEVEL * (1 - floor) + np.spacing(np.float32(abs(logits.max()))) / params.temperature
        return z >= floor + slack, z >= floor - slack
    if params.typical_p < 1:
        finite = np.maximum(z, -1e4)
        distance = abs(finite - (np.exp(z) * finite).sum() / np.exp(z).sum())
        return _smallest_sets(distance, shares, params.typical_p)
    return _smallest_sets(-logits.astype(np.float64), shares, params.top_p)


def _smallest_sets(
    key: NDArray[np.float64], shares: NDArray[np.float64], p: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    order = np.argsort(key, kind="stable")
    before = np.cumsum(shares[order]) - shares[order]
    must, may = np.zeros(len(key), dtype=bool), np.zeros(len(key), dtype=bool)
    must[order] = before < p - LEVEL
    may[order] = before < p + LEVEL
    return must, may
