"""Sets of tokens, one bit for each, as llguidance fills them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import llguidance

Bits = NDArray[np.uint8]
"""Token ``i`` is bit ``i % 8`` of byte ``i // 8``."""


def bits_of(tokens: Iterable[int], size: int) -> Bits:
    """The set of these tokens, in ``size`` bytes."""
    bits = np.zeros(size, dtype=np.uint8)
    for token in tokens:
        bits[token >> 3] |= 1 << (token & 7)
    return bits


def contains(bits: Bits, token: int) -> bool:
    """Whether the token is in the set."""
    return token >> 3 < len(bits) and bool(bits[token >> 3] >> (token & 7) & 1)


def members(bits: Bits) -> NDArray[np.intp]:
    """The tokens in the set, ascending."""
    return np.flatnonzero(np.unpackbits(bits, bitorder="little"))


def keep_only(logits: NDArray[np.float32], bits: Bits) -> None:
    """Make all tokens but those in the set impossible, in place."""
    kept = np.unpackbits(bits, count=min(len(logits), 8 * len(bits)), bitorder="little")
    np.putmask(logits[: len(kept)], kept == 0, -np.inf)
    logits[len(kept) :] = -np.inf


def fill_mask(matcher: llguidance.LLMatcher, size: int) -> Bits:
    """Have the library compute the set of what may come next, in ``size`` bytes.

    Other Python threads run meanwhile. Where the library fails the set is of no use.
    """
    words = np.empty(size // 4, dtype=np.int32)
    matcher.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
    return words.view(np.uint8)
