"""Logits -> the next token of each sequence: temperature, top-k, top-p, one draw.

Each sequence draws from a random stream of its own, so an answer does not depend on what else is in
the batch.
"""

from __future__ import annotations

import math
import secrets

import numpy as np
from numpy.typing import NDArray

from mrs.runtime.generation import SamplingParams

GREEDY_BELOW = 1e-7
# Mass is summed in blocks of this many tokens, then inside one block: a draw reads the vocabulary
# once, and the sums stay exact enough in float32.
_BLOCK = 256
# Nuclei are looked for among this many tokens first, before the whole vocabulary is sorted.
_NUCLEUS_GUESS = 512

_MASK = (1 << 64) - 1


class Sampler:
    """Draws the tokens of one sequence.

    Args:
        params: how to draw.
        index: which choice of its request the sequence is; each has its own stream.
    """

    def __init__(self, params: SamplingParams, index: int = 0) -> None:
        self._params = params
        self._greedy = params.temperature < GREEDY_BELOW
        seed = params.seed if params.seed is not None else secrets.randbits(64)
        # Philox (Salmon et al., SC11) takes the pair as its key: no two pairs share a stream.
        key = np.array([seed & _MASK, index], dtype=np.uint64)
        self._random = None if self._greedy else np.random.Generator(np.random.Philox(key=key))

    def sample(self, logits: NDArray[np.float32]) -> int:
        """The next token, from float32 logits ``[vocab]``.

        Raises:
            FloatingPointError: the largest logit is infinite, or some are NaN.
        """
        likeliest = int(logits.argmax())  # The first NaN, if there is one.
        largest = float(logits[likeliest])
        if not math.isfinite(largest):
            raise FloatingPointError(f"the logit of token {likeliest} is {largest}")
        if self._random is None:
            return likeliest
        uniform = self._random.random()
        scaled = logits / np.float32(self._params.temperature)
        k, p = self._params.top_k, self._params.top_p
        if k is not None and 0 < k < len(scaled):
            kept = top_k(scaled, k)
            weights = _softmax(scaled[kept])
            kept = kept[: nucleus_size(weights, p)] if p < 1.0 else kept
        elif p < 1.0:
            weights = _softmax(scaled)
            kept = nucleus(scaled, weights, p)
            weights = weights[kept]
        else:
            return draw(_softmax(scaled), uniform)
        return int(kept[draw(weights[: len(kept)], uniform)])


def top_k(logits: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """The k largest, in descending order; of equal ones the lower token ids first."""
    kth = np.partition(logits, len(logits) - k)[len(logits) - k]
    candidates = np.flatnonzero(logits >= kth)
    order = np.argsort(-logits[candidates], kind="stable")
    return candidates[order[:k]]


def nucleus_size(weights: NDArray[np.float32], p: float) -> int:
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


def draw(weights: NDArray[np.float32], uniform: float) -> int:
    """The index at which the running sum of ``weights`` passes the share ``uniform`` of it all."""
    blocks = np.add.reduceat(weights, np.arange(0, len(weights), _BLOCK), dtype=np.float64)
    block_mass = np.cumsum(blocks)
    target = uniform * block_mass[-1]
    block = min(int(np.searchsorted(block_mass, target, side="right")), len(blocks) - 1)
    before = block_mass[block - 1] if block else 0.0
    inside = np.cumsum(weights[block * _BLOCK : (block + 1) * _BLOCK], dtype=np.float64)
    # Rounding may leave the target a hair beyond the block; then its last likely token is meant.
    offset = int(np.searchsorted(inside, target - before, side="right"))
    if offset >= len(inside):
        offset = int(np.flatnonzero(weights[block * _BLOCK : (block + 1) * _BLOCK])[-1])
    return block * _BLOCK + offset


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Unnormalised: the largest weight is 1."""
    weights: NDArray[np.float32] = np.exp(logits - logits.max())
    return weights
