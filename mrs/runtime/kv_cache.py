"""The KV cache: one big private mapping per layer, of which only touched pages cost memory.

A slot is one sequence's place in every layer's keys and values. Slots are neighbours in memory, so
any run of them is one tensor ``[slots, kv_heads, capacity, head_dim]`` at one address, and the
attention operator appends to it in place. Giving a slot's pages back (``MADV_DONTNEED``) makes the
cache cost what its tokens cost, without a paged attention kernel.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrs.runtime.cache_operations import CacheOperation, Copy, Move, Release, Trim
from mrs.runtime.kv_cache_shape import KVCacheShape, KVCacheType, LayerShape

__all__ = ["KVCache", "KVCacheShape", "KVCacheType", "LayerShape"]

# Named only from Python 3.13 on; the value is Linux's.
_MAP_NORESERVE = 0x4000


class KVCache:
    """Keys and values of all layers.

    Args:
        shape: sizes; the address space is reserved at once, memory comes with use.
    """

    def __init__(self, shape: KVCacheShape) -> None:
        self.shape = shape
        self._layers = [_LayerCache(layer, shape) for layer in shape.layers]

    def address(self, layer: int, which: int, slot: int) -> int:
        """Address of a slot's keys (``which`` 0) or values (1) in one layer."""
        return self._layers[layer].address(which, slot)

    def tensor_shape(self, layer: int, slots: int) -> tuple[int, int, int, int]:
        """Shape of the tensor that starts at an address and spans ``slots`` slots."""
        return _tensor_shape(self.shape.layers[layer], slots)

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
        """Copy the first ``length`` tokens of one slot to another.

        Of layers whose window has moved, what is left of them; that the source has it is for
        `KVCacheShape.can_reuse` to say.
        """
        for layer in self._layers:
            kept = layer.shape.kept(length)
            layer.array[:, target, :, :kept] = layer.array[:, source, :, :kept]

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first ``length`` tokens of one slot to another and release the source."""
        self.copy(source, target, length)
        self.release(source)

    def trim(self, slot: int, length: int) -> None:
        """Give back the pages of a slot that a row of ``length`` tokens has no use for."""
        for layer in self._layers:
            layer.trim(slot, length)

    def release(self, slot: int) -> None:
        """Give a slot's pages back to the system; what it held is gone."""
        for layer in self._layers:
            layer.release(slot)

    def slot_view(self, layer: int, slot: int) -> NDArray[Any]:
        """Keys and values of a slot in one layer, ``[2, kv_heads, capacity, head_dim]``."""
        view: NDArray[Any] = self._layers[layer].array[:, slot]
        return view


class _LayerCache:
    """One layer's mapping: the keys of all slots, then the values."""

    def __init__(self, shape: LayerShape, cache: KVCacheShape) -> None:
        self.shape = shape
        self._half_bytes = cache.slots * shape.slot_bytes
        self._mapping = _reserve(2 * self._half_bytes)
        whole = np.frombuffer(self._mapping, dtype=cache.type.dtype)
        self.array = whole.reshape(2, *_tensor_shape(shape, cache.slots))
        self._address = self.array.ctypes.data

    def address(self, which: int, slot: int) -> int:
        return self._address + self._offset(which, slot)

    def trim(self, slot: int, length: int) -> None:
        used, head_bytes = self.shape.used_head_bytes(length), self.shape.head_bytes
        if used == head_bytes:
            return
        for which in (0, 1):
            first = self._offset(which, slot)
            for start in range(first, first + self.shape.slot_bytes, head_bytes):
                self._mapping.madvise(mmap.MADV_DONTNEED, start + used, head_bytes - used)

    def release(self, slot: int) -> None:
        for which in (0, 1):
            start = self._offset(which, slot)
            self._mapping.madvise(mmap.MADV_DONTNEED, start, self.shape.slot_bytes)

    def _offset(self, which: int, slot: int) -> int:
        return which * self._half_bytes + slot * self.shape.slot_bytes


def _tensor_shape(layer: LayerShape, slots: int) -> tuple[int, int, int, int]:
    return (slots, layer.num_kv_heads, layer.capacity, layer.head_dim)


def _reserve(size: int) -> mmap.mmap:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    mapping = mmap.mmap(-1, size, flags=flags)
    # With huge pages each head of each slot would commit 2 MB for its first token.
    mapping.madvise(mmap.MADV_NOHUGEPAGE)
    return mapping
