"""What the engine does to the KV cache between two steps, in the order in which it was decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Move:
    """The first ``length`` tokens of one slot go to another; the source gives its memory back."""

    source: int
    target: int
    length: int


@dataclass(frozen=True)
class Copy:
    """The first ``length`` tokens of one slot are copied to another."""

    source: int
    target: int
    length: int


@dataclass(frozen=True)
class Release:
    """A slot gives its memory back."""

    slot: int


@dataclass(frozen=True)
class Trim:
    """A slot gives back what memory its first ``length`` tokens do not need."""

    slot: int
    length: int


CacheOperation = Move | Copy | Release | Trim


class RowCache(Protocol):
    """What the engine does to a KV cache; `mrs.runtime.kv_cache.KVCache`, mostly."""

    def carry_out(self, operation: CacheOperation) -> None:
        """Do what was decided between two steps."""
