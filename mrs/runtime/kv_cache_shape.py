"""Sizes of the KV cache: what a row of tokens takes, and what is left of it where a window moved.

A layer with a sliding window has room for the window and some slack. Its rows are always
neighbours and begin with the oldest token that is left: once the room is used up, the operator
drops as many tokens as the slack has at once and moves the rest to the front
(``sliding_window_cache`` of ONNX Runtime's ``GroupQueryAttention``, whose documentation defines
the layout). So a row cannot be cut to any shorter length: `KVCacheShape.can_reuse` says to which.
"""

from __future__ import annotations

import mmap
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from math import gcd

import numpy as np

# Slack of a window: as many tokens as it has, within these bounds. It is how far a row can be cut
# back, at most; it costs memory, and attention over tokens that are not seen.
_LEAST_SLACK, _MOST_SLACK = 256, 1024


class KVCacheType(StrEnum):
    """What keys and values are stored as."""

    FP32 = "fp32"
    INT8 = "int8"

    @property
    def dtype(self) -> type[np.generic]:
        """NumPy's type for it."""
        return np.float32 if self is KVCacheType.FP32 else np.int8

    @property
    def item_size(self) -> int:
        """Bytes of one number."""
        return 4 if self is KVCacheType.FP32 else 1


@dataclass(frozen=True)
class LayerShape:
    """The cache of one layer.

    Attributes:
        num_kv_heads: heads of keys, and of values.
        capacity: tokens that each has room for.
        head_dim: size of one head.
        item_size: bytes of one number.
        window: a token sees itself and ``window - 1`` before it; None for all.
    """

    num_kv_heads: int
    capacity: int
    head_dim: int
    item_size: int
    window: int | None = None

    @property
    def head_bytes(self) -> int:
        """Address space of one head's keys or values."""
        return self.capacity * self.head_dim * self.item_size

    @property
    def slot_bytes(self) -> int:
        """Address space of one slot's keys or values."""
        return self.num_kv_heads * self.head_bytes

    def first_kept(self, tokens: int) -> int:
        """How many tokens at the beginning of a row of so many are dropped."""
        if self.window is None or tokens <= self.capacity:
            return 0
        dropped_at_once = self.capacity - self.window + 1
        return -((self.capacity - tokens) // dropped_at_once) * dropped_at_once

    def kept(self, tokens: int) -> int:
        """How many tokens of a row of so many are there, from the front of its memory on."""
        return tokens - self.first_kept(tokens)

    def used_head_bytes(self, tokens: int) -> int:
        """Memory of one head whose row has grown to so many tokens: whole pages."""
        used = min(tokens, self.capacity) * self.head_dim * self.item_size
        return -(-used // mmap.PAGESIZE) * mmap.PAGESIZE

    def committed_bytes(self, tokens: int) -> int:
        """Memory of keys and values."""
        return 2 * self.num_kv_heads * self.used_head_bytes(tokens)


@dataclass(frozen=True)
class KVCacheShape:
    """Sizes of a cache.

    Attributes:
        num_layers: layers, each with keys and values.
        slots: rows that fit at once.
        num_kv_heads: heads of each.
        min_capacity: tokens that a slot must hold at least.
        head_dim: size of one head.
        windows: sliding window of each layer, or None; empty where no layer drops any token.
        type: what keys and values are stored as.
        spare: how many of the slots are for rows of ended sequences alone.
    """

    num_layers: int
    slots: int
    num_kv_heads: int
    min_capacity: int
    head_dim: int
    windows: tuple[int | None, ...] = ()
    type: KVCacheType = KVCacheType.FP32
    spare: int = 0

    @property
    def running(self) -> int:
        """Sequences that can run at once."""
        return self.slots - self.spare

    @cached_property
    def layers(self) -> tuple[LayerShape, ...]:
        """The cache of each layer."""
        return tuple(self._layer(window) for window in self.windows or [None] * self.num_layers)

    @property
    def capacity(self) -> int:
        """Tokens that a slot holds in a layer that sees all of them."""
        return self._on_pages(self.min_capacity)

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one token costs over all layers, while no window has moved beyond it."""
        token = self.num_kv_heads * self.head_dim * self.type.item_size
        return 2 * self.num_layers * token

    def committed_bytes(self, tokens: int) -> int:
        """Memory that a row takes which has grown to so many tokens.

        Whole pages of each head of each layer; no more where a window is full.
        """
        return sum(count * layer.committed_bytes(tokens) for layer, count in self._kinds)

    def can_reuse(self, held: int, length: int) -> bool:
        """Whether a row can be cut.

        Args:
            held: tokens that it has.
            length: tokens that it shall have, or that shall be copied of it; not more.

        Returns:
            whether all that those see is there, and where the operator expects it.
        """
        return all(layer.first_kept(held) == layer.first_kept(length) for layer, _ in self._kinds)

    @cached_property
    def _kinds(self) -> tuple[tuple[LayerShape, int], ...]:
        """The different layers, and how many there are of each."""
        return tuple(Counter(self.layers).items())

    def _layer(self, window: int | None) -> LayerShape:
        capacity = self.capacity
        if window is not None:
            slack = min(max(window, _LEAST_SLACK), _MOST_SLACK)
            # The operator refuses a capacity below the window, even if no row comes to it.
            capacity = max(self._on_pages(window), min(capacity, self._on_pages(window + slack)))
        return LayerShape(self.num_kv_heads, capacity, self.head_dim, self.type.item_size, window)

    def _on_pages(self, tokens: int) -> int:
        """Rounded up so that all heads start on pages."""
        token = self.head_dim * self.type.item_size
        step = mmap.PAGESIZE // gcd(mmap.PAGESIZE, token)
        return -(-tokens // step) * step
