"""Which tokens may be drawn: each filter keeps a part of the vocabulary.

None sorts the whole vocabulary unless its own definition leaves no other way; only those whose
definition is of shares (top-p, typical, XTC) look at the weights of all tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mrs.runtime.sampling.candidates import Candidates
from mrs.runtime.sampling.draw import mass
from mrs.runtime.sampling.peaks import descending
from mrs.runtime.sampling.room import room

# Weights, relative to the likeliest token's, down to which a nucleus is looked for first.
_NUCLEUS_GUESSES = (math.exp(-5), math.exp(-9))
# Distances from the expected information, in nats, within which typical tokens are looked for.
_TYPICAL_GUESSES = (2.0, 6.0)
# More tokens than that are first divided into layers, of one over so many nats, and not all sorted.
_FEW_TO_SORT = 2048
_LAYERS_PER_NAT = 8
_MOST_LAYERS = 4096
_SQUARES_OVERFLOW = 1e15
_LEAST_WEIGHT = float(np.finfo(np.float32).tiny)


def keep_top_k(candidates: Candidates, k: int | None) -> Candidates:
    """The ``k`` likeliest; all where ``k`` is None or below 1."""
    if k is None or not 0 < k < len(candidates.logits):
        return candidates
    if candidates.peaks is None:
        return candidates.keep(slice(k))
    return candidates.keep(candidates.peaks.top(k))


def top_k_floors(candidates: Candidates, k: int) -> list[float]:
    """Floors that hold all that `keep_top_k` keeps."""
    floor = None if candidates.peaks is None else candidates.peaks.top_floor(k)
    return [] if floor is None else [floor]


def keep_top_n_sigma(candidates: Candidates, n: float | None) -> Candidates:
    """Those within ``n`` standard deviations of the likeliest one's logit.

    Source: Tang et al., Top-n-sigma, arXiv:2411.07641.
    """
    if n is None or n <= 0:
        return candidates
    return candidates.keep_at_least(candidates.largest - n * _deviation(candidates.logits))


def _deviation(logits: NDArray[np.float32]) -> float:
    """Of the finite ones."""
    if not math.isfinite(logits.min()):
        logits = logits[np.isfinite(logits)]
    if float(logits.max()) - float(logits.min()) > _SQUARES_OVERFLOW:
        return float(logits.std(dtype=np.float64))
    centred = np.subtract(
        logits, np.float32(mass(logits) / len(logits)), out=room("centred", len(logits))
    )
    centred *= centred
    return math.sqrt(mass(centred) / len(centred))


def keep_typical(candidates: Candidates, p: float) -> Candidates:
    """The smallest set of mass ``p`` whose information is nearest to the expected one.

    Source: Meister et al., Locally Typical Sampling, arXiv:2202.00666.
    """
    if p >= 1.0:
        return candidates
    # A token's information is a constant less its scaled logit: the constant cancels out.
    distances, weights = room("distances", len(candidates.logits)), candidates.weights
    # Infinity times nothing is NaN.
    scaled = np.maximum(candidates.scaled, np.float32(-1e4), out=room("centred", len(weights)))
    expected = mass(np.multiply(scaled, weights, out=distances)) / candidates.total
    np.abs(np.subtract(scaled, np.float32(expected), out=distances), out=distances)
    target = p * candidates.total
    for reach in (*_TYPICAL_GUESSES, math.inf):
        near = np.flatnonzero(distances <= reach)
        if reach < math.inf and weights[near].sum(dtype=np.float64) < target:
            continue
        near = near[_layers_of(distances[near], weights[near], target)]
        near = near[descending(-distances[near])]
        size = _size(weights[near], target)
        if size is not None:
            break
    kept = np.sort(near[:size])
    return candidates.keep_sorted(kept) if candidates.peaks is not None else candidates.keep(kept)


def keep_nucleus(candidates: Candidates, p: float) -> Candidates:
    """The smallest set of likeliest tokens whose mass reaches ``p``; of equal ones the lower ids.

    Source: Holtzman et al., The Curious Case of Neural Text Degeneration, arXiv:1904.09751.
    """
    if p >= 1.0:
        return candidates
    target = p * candidates.total
    if candidates.peaks is None:
        return candidates.keep(slice(_size(candidates.weights, target)))
    for floor in _nucleus_floors(candidates, p):
        likely = candidates.peaks.at_least(candidates.floor(floor))
        weights = candidates.weights[likely]
        if floor and weights.sum(dtype=np.float64) < target:
            continue
        likely = likely[_layers_of(-candidates.scaled[likely], weights, target)]
        found = candidates.keep_sorted(likely)
        size = _size(found.weights, target)
        if size is not None:
            return found.keep(slice(size))
    return found


def _nucleus_floors(candidates: Candidates, p: float) -> Iterator[float]:
    """Weights down to which to look for a nucleus, the last time at all tokens."""
    yield from _NUCLEUS_GUESSES
    # All tokens below this one together have no more than what a nucleus leaves out.
    yield min(_NUCLEUS_GUESSES[-1], (1.0 - p) * candidates.total / len(candidates.logits))
    yield 0.0


def keep_min_p(candidates: Candidates, p: float) -> Candidates:
    """Those at least ``p`` times as likely as the likeliest (Nguyen et al., arXiv:2407.01082)."""
    if p <= 0.0:
        return candidates
    return candidates.keep_at_least(min_p_floor(candidates, p))


def min_p_floor(candidates: Candidates, p: float) -> float:
    """What the logits reach that `keep_min_p` keeps, where ``p`` is above 0."""
    return candidates.largest + math.log(p) / float(candidates.scale)


def exclude_top_choices(candidates: Candidates, threshold: float) -> Candidates:
    """Of the tokens of at least the share ``threshold``, only the least likely stays (XTC).

    The last filter: what it excludes has no weight any more.

    Source: p-e-w, "Exclude Top Choices", text-generation-webui, pull request 6335.
    """
    floor = max(threshold * candidates.total, _LEAST_WEIGHT)
    likely = candidates.places_of_weight(floor)
    if len(likely) < 2:
        return candidates
    spared = likely[np.argmin(candidates.logits[likely])]
    return candidates.without(likely[likely != spared])


def _layers_of(
    depths: NDArray[np.float32], weights: NDArray[np.float32], target: float
) -> NDArray[np.int64] | slice:
    """Which tokens, from the surface down, are enough to reach ``target``: a few too many.

    Args:
        depths: how far down each is, in nats.
        weights: of each.
        target: mass.
    """
    if len(depths) <= _FEW_TO_SORT:
        return slice(None)
    scaled = np.minimum(depths * np.float32(_LAYERS_PER_NAT), np.float32(_MOST_LAYERS))
    layers = scaled.astype(np.int32)
    reached = np.bincount(layers, weights).cumsum().searchsorted(target)
    # One more: the sum may be level with the target but for rounding.
    return np.flatnonzero(layers <= reached + 1)


def _size(weights: NDArray[np.float32], target: float) -> int | None:
    """How many of the weights it takes to reach ``target``; None if all do not."""
    sums = np.cumsum(weights, dtype=np.float64)
    size = int(np.searchsorted(sums, target)) + 1
    return size if size <= len(weights) else None
