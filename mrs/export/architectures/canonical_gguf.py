"""GGUF files whose tensors are named or cut otherwise, under canonical names.

Names are GGUF's own, so that most files need nothing of this. Old files hold each expert as a
tensor of its own (``blk.0.ffn_gate.7.weight``), some new ones gate and up of all experts as one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from mrs.export.architectures.canonical_tensors import add_view, split_gate_up, stacked
from mrs.export.architectures.registry import ARCHITECTURES
from mrs.export.checkpoints.checkpoint import (
    Checkpoint,
    CheckpointFormat,
    MetadataValue,
    TensorInfo,
)
from mrs.export.checkpoints.gguf_reader import open_gguf
from mrs.export.checkpoints.tensor_views import Stored, TensorView

_ONE_EXPERT = re.compile(r"(blk\.\d+\.ffn_(?:gate|up|down))\.(\d{1,6})\.(weight|bias)")
_STEM = re.compile(r"(blk\.\d+\.)(.+)(\.(?:weight|bias))")


def open_canonical_gguf(path: Path) -> Checkpoint:
    """Open a GGUF file, its tensors under canonical names.

    Raises:
        CorruptCheckpointError: it is not what it should be, or tensors do not fit together.
        SourceNotFoundError, StorageError: it is missing or cannot be read.
    """
    stored = open_gguf(path)
    try:
        return canonical_gguf(stored)
    except BaseException:
        stored.close()
        raise


def canonical_gguf(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint under canonical names: itself, where it has them.

    Raises:
        CorruptCheckpointError: tensors that belong together do not fit.
    """
    family = ARCHITECTURES.get(checkpoint.architecture)
    renamed = family.gguf_tensors if family is not None else {}
    views = _views(checkpoint, renamed)
    if views.keys() == checkpoint.tensors.keys():
        return checkpoint
    return _CanonicalGguf(checkpoint, views)


def _views(checkpoint: Checkpoint, renamed: Mapping[str, str]) -> dict[str, TensorView]:
    found: dict[str, TensorView] = {}
    experts: dict[str, dict[int, Stored]] = {}
    for name, info in checkpoint.tensors.items():
        stored = Stored(info, checkpoint.read_rows)
        if (match := _ONE_EXPERT.fullmatch(name)) is not None:
            stack = experts.setdefault(f"{match[1]}_exps.{match[3]}", {})
            stack[int(match[2])] = stored
        else:
            add_view(found, _canonical_name(name, renamed), stored)
    for name, members in experts.items():
        add_view(found, name, stacked(name, members))
    return split_gate_up(found, in_turn=False)


def _canonical_name(name: str, renamed: Mapping[str, str]) -> str:
    match = _STEM.fullmatch(name)
    if match is None or match[2] not in renamed:
        return name
    return f"{match[1]}{renamed[match[2]]}{match[3]}"


class _CanonicalGguf:
    """Implements `mrs.export.checkpoints.checkpoint.Checkpoint` over another."""

    def __init__(self, stored: Checkpoint, views: Mapping[str, TensorView]) -> None:
        self._stored = stored
        self._views = views
        self._tensors = MappingProxyType(
            {name: TensorInfo(name, view.shape, view.dtype) for name, view in sorted(views.items())}
        )

    @property
    def format(self) -> CheckpointFormat:
        return self._stored.format

    @property
    def architecture(self) -> str:
        return self._stored.architecture

    @property
    def metadata(self) -> Mapping[str, MetadataValue]:
        return self._stored.metadata

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        return self._tensors

    def read_rows(self, name: str, start: int, stop: int) -> NDArray[np.uint8]:
        return self._views[name].read_rows(start, stop)

    def close(self) -> None:
        self._stored.close()
