"""The KV cache: one big private mapping per layer, of which only touched pages cost memory.

A slot is one sequence's place in every layer's keys and values. Slots are neighbours in memory, so
any run of them is one tensor ``[slots, kv_heads, capacity, head_dim]`` at one address, and the
attention operator appends to it in place. Giving a slot's pages back (``MADV_DONTNEED``) makes the
cache cost what its tokens cost, without a paged attention kernel.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mrs.runtime.cache_operations import CacheOperation, Copy, Move, Release, Trim

_ITEM_SIZE = 4
# Named only from Python 3.13 on; the value is Linux's.
_MAP_NORESERVE = 0x4000
_PAGE_ALIGNMENT = mmap.PAGESIZE


@dataclass(frozen=True)
class KVCacheShape:
    """Sizes of a cache.

    Attributes:
        num_layers: layers, each with keys and values.
        slots: sequences that fit at once.
        num_kv_heads: heads of each.
        min_capacity: tokens that a slot must hold at least.
        head_dim: size of one head.
    """

    num_layers: int
    slots: int
    num_kv_heads: int
    min_capacity: int
    head_dim: int

    @property
    def capacity(self) -> int:
        """Tokens that a slot holds: ``min_capacity`` rounded up so that heads start on pages."""
        token = self.head_dim * _ITEM_SIZE
        step = _PAGE_ALIGNMENT // np.gcd(_PAGE_ALIGNMENT, token)
        return int(-(-self.min_capacity // step) * step)

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one token costs over all layers."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * _ITEM_SIZE

    def committed_bytes(self, tokens: int) -> int:
        """Memory that a row of so many tokens takes: whole pages of each head of each layer."""
        head = -(-tokens * self.head_dim * _ITEM_SIZE // mmap.PAGESIZE) * mmap.PAGESIZE
        return 2 * self.num_layers * self.num_kv_heads * head


class KVCache:
    """Keys and values of all layers.

    Args:
        shape: sizes; the address space is reserved at once, memory comes with use.
    """

    def __init__(self, shape: KVCacheShape) -> None:
        self.shape = shape
        self._slot_bytes = shape.num_kv_heads * shape.capacity * shape.head_dim * _ITEM_SIZE
        self._half_bytes = shape.slots * self._slot_bytes
        self._maps = [_reserve(2 * self._half_bytes) for _ in range(shape.num_layers)]
        self._layers = [self._array(mapping) for mapping in self._maps]
        self._addresses = [layer.ctypes.data for layer in self._layers]

    def address(self, layer: int, which: int, slot: int) -> int:
        """Address of a slot's keys (``which`` 0) or values (1) in one layer."""
        return self._addresses[layer] + which * self._half_bytes + slot * self._slot_bytes

    def tensor_shape(self, slots: int) -> tuple[int, int, int, int]:
        """Shape of the tensor that starts at an address and spans ``slots`` slots."""
        return (slots, self.shape.num_kv_heads, self.shape.capacity, self.shape.head_dim)

    def carry_out(self, operation: CacheOperation) -> None:
        """Do what was decided between two steps."""
        match operation:
            case Move(source, target, length):
                self.move(source, target, length)
            case Copy(source, target, length):
                self.copy(source, target, length)
            case Trim(slot, length):
                self.trim(slot, length)
            case Release(slot):
                self.release(slot)

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first ``length`` tokens of one slot to another."""
        for layer in self._layers:
            layer[:, target, :, :length] = layer[:, source, :, :length]

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first ``length`` tokens of one slot to another and release the source."""
        self.copy(source, target, length)
        self.release(source)

    def trim(self, slot: int, length: int) -> None:
        """Give back the pages of a slot that hold none of its first ``length`` tokens."""
        head_bytes = self.shape.capacity * self.shape.head_dim * _ITEM_SIZE
        used = -(-length * self.shape.head_dim * _ITEM_SIZE // mmap.PAGESIZE) * mmap.PAGESIZE
        if used == head_bytes:
            return
        for mapping in self._maps:
            for which in (0, 1):
                first = which * self._half_bytes + slot * self._slot_bytes
                for start in range(first, first + self._slot_bytes, head_bytes):
                    mapping.madvise(mmap.MADV_DONTNEED, start + used, head_bytes - used)

    def release(self, slot: int) -> None:
        """Give a slot's pages back to the system; what it held is gone."""
        for mapping in self._maps:
            for which in (0, 1):
                start = which * self._half_bytes + slot * self._slot_bytes
                mapping.madvise(mmap.MADV_DONTNEED, start, self._slot_bytes)

    def slot_view(self, layer: int, slot: int) -> NDArray[np.float32]:
        """Keys and values of a slot in one layer, ``[2, kv_heads, capacity, head_dim]``."""
        return self._layers[layer][:, slot]

    def _array(self, mapping: mmap.mmap) -> NDArray[np.float32]:
        whole = np.frombuffer(mapping, dtype=np.float32)
        return whole.reshape(2, *self.tensor_shape(self.shape.slots))


def _reserve(size: int) -> mmap.mmap:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    mapping = mmap.mmap(-1, size, flags=flags)
    # With huge pages each head of each slot would commit 2 MB for its first token.
    mapping.madvise(mmap.MADV_NOHUGEPAGE)
    return mapping
