"""Which tokens may be drawn: each filter keeps a part of the vocabulary.

Filters work on `Candidates`: as long as no filter has chosen, all tokens in the order of their ids;
afterwards the chosen ones, the likeliest first. None sorts the whole vocabulary unless its own
definition leaves no other way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mrs.runtime.sampling.draw import softmax

# Nuclei are looked for among this many tokens first, before the whole vocabulary is sorted.
_NUCLEUS_GUESS = 512


@dataclass(frozen=True)
class Candidates:
    """Tokens that may be drawn.

    Attributes:
        logits: float32, scaled by the temperature.
        ids: the tokens that they belong to, the likeliest first; None for all of the vocabulary.
    """

    logits: NDArray[np.float32]
    ids: NDArray[np.int64] | None = None

    def keep(self, which: NDArray[np.int64]) -> Candidates:
        """The candidates at these places, in this order."""
        ids = which if self.ids is None else self.ids[which]
        return Candidates(self.logits[which], ids)

    def sorted(self) -> Candidates:
        """The same, the likeliest first; of equal ones the lower token ids first."""
        if self.ids is not None:
            return self
        return self.keep(np.argsort(-self.logits, kind="stable"))

    def token(self, place: int) -> int:
        """The token at a place."""
        return place if self.ids is None else int(self.ids[place])


def top_k(logits: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """The k largest, in descending order; of equal ones the lower token ids first."""
    kth = np.partition(logits, len(logits) - k)[len(logits) - k]
    candidates = np.flatnonzero(logits >= kth)
    order = np.argsort(-logits[candidates], kind="stable")
    return candidates[order[:k]]


def keep_top_k(candidates: Candidates, k: int | None) -> Candidates:
    """The ``k`` likeliest; all where ``k`` is None or below 1."""
    if k is None or not 0 < k < len(candidates.logits):
        return candidates
    if candidates.ids is not None:
        return candidates.keep(np.arange(k))
    return candidates.keep(top_k(candidates.logits, k))


def keep_top_n_sigma(candidates: Candidates, n: float | None) -> Candidates:
    """Those within ``n`` standard deviations of the likeliest one's logit.

    Source: Tang et al., Top-n-sigma, arXiv:2411.07641.
    """
    if n is None or n <= 0:
        return candidates
    logits = candidates.logits
    finite = logits[np.isfinite(logits)]
    floor = logits.max() - n * finite.std(dtype=np.float64)
    return _sorted_subset(candidates, np.flatnonzero(logits >= floor))


def keep_typical(candidates: Candidates, p: float) -> Candidates:
    """The smallest set of mass ``p`` whose information is nearest to the expected one.

    Source: Meister et al., Locally Typical Sampling, arXiv:2202.00666.
    """
    if p >= 1.0:
        return candidates
    weights = softmax(candidates.logits).astype(np.float64)
    shares = weights / weights.sum()
    information = -np.log(np.maximum(shares, np.finfo(np.float64).tiny))
    entropy = float((shares * information).sum())
    order = np.argsort(np.abs(information - entropy), kind="stable")
    kept = order[: nucleus_size(shares[order], p)]
    return _sorted_subset(candidates, kept)


def keep_nucleus(candidates: Candidates, p: float) -> Candidates:
    """The smallest set of likeliest tokens whose mass reaches ``p``."""
    if p >= 1.0:
        return candidates
    weights = softmax(candidates.logits)
    if candidates.ids is not None:
        return candidates.keep(np.arange(nucleus_size(weights, p)))
    return candidates.keep(nucleus(candidates.logits, weights, p))


def keep_min_p(candidates: Candidates, p: float) -> Candidates:
    """Those at least ``p`` times as likely as the likeliest (Nguyen et al., arXiv:2407.01082)."""
    if p <= 0.0:
        return candidates
    floor = candidates.logits.max() + np.log(p)
    return _sorted_subset(candidates, np.flatnonzero(candidates.logits >= floor))


def exclude_top_choices(candidates: Candidates, threshold: float) -> Candidates:
    """Of the tokens of at least the share ``threshold``, only the least likely stays (XTC).

    The last filter: what it leaves is in no order.

    Source: p-e-w, "Exclude Top Choices", text-generation-webui, pull request 6335.
    """
    weights = softmax(candidates.logits)
    likely = np.flatnonzero(weights >= threshold * weights.sum(dtype=np.float64))
    if len(likely) < 2:
        return candidates
    spared = likely[np.argmin(candidates.logits[likely])]
    excluded = likely[likely != spared]
    return candidates.keep(np.setdiff1d(np.arange(len(weights)), excluded, assume_unique=True))


def nucleus_size(weights: NDArray[np.floating], p: float) -> int:
    """How many of the descending ``weights`` it takes to reach the share ``p`` of their sum.

    Source: Holtzman et al., The Curious Case of Neural Text Degeneration, arXiv:1904.09751.
    """
    mass = np.cumsum(weights, dtype=np.float64)
    return min(int(np.searchsorted(mass, p * mass[-1])) + 1, len(weights))


def nucleus(
    logits: NDArray[np.float32], weights: NDArray[np.float32], p: float
) -> NDArray[np.int64]:
    """The smallest set of tokens whose weights reach the share ``p``, in descending order."""
    total = weights.sum(dtype=np.float64)
    if len(logits) > _NUCLEUS_GUESS:
        kept = top_k(logits, _NUCLEUS_GUESS)
        mass = np.cumsum(weights[kept], dtype=np.float64)
        if mass[-1] >= p * total:
            return kept[: int(np.searchsorted(mass, p * total)) + 1]
    kept = np.argsort(-logits, kind="stable")
    return kept[: nucleus_size(weights[kept], p)]


def _sorted_subset(candidates: Candidates, places: NDArray[np.int64]) -> Candidates:
    """Some candidates, the likeliest first."""
    places = np.sort(places)
    return candidates.keep(places[np.argsort(-candidates.logits[places], kind="stable")])
