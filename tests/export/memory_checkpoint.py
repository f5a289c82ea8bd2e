"""A checkpoint without a file, for tests of what is behind the reader."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import gguf
import numpy as np
from gguf import GGMLQuantizationType
from numpy.typing import NDArray

from mrs.export.checkpoints.checkpoint import CheckpointFormat, MetadataValue, TensorInfo
from tests.export.gguf_files import StoredTensor, TensorItem


@dataclass(frozen=True)
class MemoryCheckpoint:
    """Implements `mrs.export.checkpoints.checkpoint.Checkpoint` over arrays."""

    stored: Mapping[str, TensorItem] = field(default_factory=dict)
    metadata: Mapping[str, MetadataValue] = field(default_factory=dict)
    architecture: str = "llama"
    format: CheckpointFormat = CheckpointFormat.GGUF

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        return {
            name: TensorInfo(name, _shape(tensor), _dtype(tensor))
            for name, tensor in self.stored.items()
        }

    def read_rows(self, name: str, start: int, stop: int) -> NDArray[np.uint8]:
        tensor = self.stored[name]
        data = tensor.data if isinstance(tensor, StoredTensor) else tensor
        data = np.ascontiguousarray(data).view(np.uint8)
        return data.reshape(math.prod(data.shape[:-1]), data.shape[-1])[start:stop]

    def close(self) -> None:
        pass


def _dtype(tensor: TensorItem) -> str:
    if isinstance(tensor, StoredTensor):
        return tensor.dtype
    return {"float32": "F32", "float16": "F16", "int32": "I32"}[tensor.dtype.name]


def _shape(tensor: TensorItem) -> tuple[int, ...]:
    if not isinstance(tensor, StoredTensor):
        return tensor.shape
    block_size, block_bytes = gguf.GGML_QUANT_SIZES[GGMLQuantizationType[tensor.dtype]]
    return (*tensor.data.shape[:-1], tensor.data.shape[-1] // block_bytes * block_size)
