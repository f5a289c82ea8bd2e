"""A checkpoint, and tensors that lie in folders of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from mrs.export.checkpoints.checkpoint import (
    Checkpoint,
    CheckpointFormat,
    MetadataValue,
    TensorInfo,
)
from mrs.export.checkpoints.safetensors_reader import SafetensorsFolder


class JoinedCheckpoint:
    """Implements `Checkpoint` over another one and further safetensors.

    Args:
        base: where metadata and most tensors are. It belongs to this object from now on.
        parts: further tensors, by the stem that stands for ``linear`` in their names; they too
            belong to this object.
    """

    def __init__(self, base: Checkpoint, parts: Mapping[str, SafetensorsFolder]) -> None:
        self._base = base
        self._parts = dict(parts)
        self._places = {
            name.replace("linear", stem, 1): (part, name)
            for stem, part in parts.items()
            for name in part.tensors
        }
        added = {
            name: replace(part.tensors[own], name=name)
            for name, (part, own) in self._places.items()
        }
        self._tensors = MappingProxyType({**base.tensors, **added})

    @property
    def format(self) -> CheckpointFormat:
        """The base's."""
        return self._base.format

    @property
    def architecture(self) -> str:
        """The base's."""
        return self._base.architecture

    @property
    def metadata(self) -> Mapping[str, MetadataValue]:
        """The base's."""
        return self._base.metadata

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """All tensors by name."""
        return self._tensors

    def read_rows(self, name: str, start: int, stop: int) -> NDArray[np.uint8]:
        """See `mrs.export.checkpoints.checkpoint.Checkpoint.read_rows`."""
        if name not in self._places:
            return self._base.read_rows(name, start, stop)
        part, own = self._places[name]
        return part.read_rows(own, start, stop)

    def close(self) -> None:
        """Unmap all files."""
        for part in self._parts.values():
            part.close()
        self._base.close()
