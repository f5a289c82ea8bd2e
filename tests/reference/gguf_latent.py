"""DeepSeek's attention in GGUF files: newer ones hold the expansion in two parts, older in one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

_OURS = ("attention.key_length", "attention.value_length", "attention.head_count_kv")


def as_newer_files(name: str, metadata: dict[str, Any], tensors: dict[str, Array]) -> None:
    """Heads of keys and values are told apart, and those of the compressed cache."""
    rank, rotated = metadata[f"{name}.attention.kv_lora_rank"], _rotated(name, metadata)
    _sizes(name, metadata, rank + rotated, rank)
    metadata[f"{name}.attention.head_count_kv"] = 1
    for key in [key for key in tensors if key.endswith(".attn_kv_b.weight")]:
        heads = _by_head(name, metadata, tensors.pop(key))
        plain = metadata[f"{name}.attention.key_length_mla"] - rotated
        stem = key.removesuffix("attn_kv_b.weight")
        tensors[f"{stem}attn_k_b.weight"] = np.ascontiguousarray(heads[:, :plain].swapaxes(1, 2))
        tensors[f"{stem}attn_v_b.weight"] = np.ascontiguousarray(heads[:, plain:])


def as_older_files(name: str, metadata: dict[str, Any]) -> None:
    """Before llama.cpp compressed its cache."""
    sizes = [metadata.pop(f"{name}.attention.{part}_length_mla") for part in ("key", "value")]
    _sizes(name, metadata, *sizes)
    metadata[f"{name}.attention.head_count_kv"] = metadata[f"{name}.attention.head_count"]


def _sizes(name: str, metadata: dict[str, Any], key: int, value: int) -> None:
    for part in _OURS:
        metadata.pop(f"{name}.{part}", None)
    metadata[f"{name}.attention.key_length"] = key
    metadata[f"{name}.attention.value_length"] = value


def _rotated(name: str, metadata: dict[str, Any]) -> int:
    return int(metadata[f"{name}.rope.dimension_count"])


def _by_head(name: str, metadata: dict[str, Any], values: Array) -> Array:
    heads = metadata[f"{name}.attention.head_count"]
    return values.reshape(heads, -1, values.shape[-1])
