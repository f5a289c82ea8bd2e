"""What every checkpoint reader offers: metadata, and tensors that are read only when asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

MetadataValue = bool | int | float | str | list[bool] | list[int] | list[float] | list[str]


class CheckpointFormat(Enum):
    """The format that a checkpoint is stored in; tensors of the two may be laid out differently."""

    GGUF = "gguf"
    HUGGING_FACE = "huggingface"


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A stored tensor.

    Attributes:
        name: canonical GGUF name (``blk.0.attn_q.weight``); in a `SafetensorsFolder` its own.
        shape: logical shape, outermost dimension first (``[out, in]`` for a linear layer; the
            reverse of GGUF's own order).
        dtype: storage type by its GGUF name (``F32``, ``Q4_1``, ...) or, where GGUF has none, in
            safetensors' words (``F8_E4M3``).
    """

    name: str
    shape: tuple[int, ...]
    dtype: str


class Checkpoint(Protocol):
    """A model's metadata and lazily read tensors, under canonical (GGUF) names."""

    @property
    def format(self) -> CheckpointFormat:
        """How the checkpoint is stored."""

    @property
    def architecture(self) -> str:
        """The model family, ``general.architecture`` in GGUF's words."""

    @property
    def metadata(self) -> Mapping[str, MetadataValue]:
        """All metadata by GGUF key."""

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """All tensors by name."""

    def read_rows(self, name: str, start: int, stop: int) -> NDArray[np.uint8]:
        """The stored bytes of rows ``start:stop`` of a tensor, as uint8 ``[rows, bytes_per_row]``.

        A row is one index of all dimensions but the last; a 1-D tensor has one row. The bytes
        are a view on the mapped file where possible: they cost no memory until touched.

        Raises:
            CorruptCheckpointError: the file has become shorter since it was opened.
            KeyError: there is no such tensor.
        """

    def close(self) -> None:
        """Unmap the file."""
