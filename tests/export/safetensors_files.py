"""Small safetensors files for tests, put together by hand so that a test can state any lie.

That the honest ones are proper is seen where the `safetensors` package reads them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class RawTensor:
    """Bytes under a type in safetensors' words."""

    dtype: str
    shape: Sequence[int]
    data: bytes


def bfloat16(values: NDArray[np.float32]) -> RawTensor:
    """The upper halves of float32 values."""
    halves = np.ascontiguousarray(values).view(np.uint16)[..., 1::2]
    return RawTensor("BF16", values.shape, halves.tobytes())


TensorItem = NDArray[np.generic] | RawTensor


def write_safetensors(path: Path, tensors: Mapping[str, TensorItem]) -> Path:
    """Write a file with the tensors in their order."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, tensor in tensors.items():
        raw = _raw(tensor)
        header[name] = entry(raw.dtype, raw.shape, len(data), len(data) + len(raw.data))
        data += raw.data
    path.write_bytes(raw_safetensors(header, data))
    return path


def write_shards(
    folder: Path, shards: Sequence[Mapping[str, TensorItem]], *, index: bool = True
) -> Path:
    """Write ``model-0000i-of-0000N.safetensors`` files and, unless told not to, their index."""
    folder.mkdir(parents=True, exist_ok=True)
    places = {}
    for number, tensors in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        write_safetensors(folder / name, tensors)
        places |= dict.fromkeys(tensors, name)
    if index:
        document = {"metadata": {"total_size": 1}, "weight_map": places}
        (folder / "model.safetensors.index.json").write_text(json.dumps(document, indent=2))
    return folder


def raw_safetensors(
    header: Mapping[str, Any] | bytes | str, data: bytes = b"", *, claim: int | None = None
) -> bytes:
    """A file with any header; ``claim`` replaces its true length."""
    if isinstance(header, Mapping):
        header = json.dumps(header)
    text = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(text) if claim is None else claim) + text + data


def entry(dtype: str, shape: Sequence[int], start: int, stop: int) -> dict[str, Any]:
    """A tensor as a header describes it."""
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, stop]}


def _raw(tensor: TensorItem) -> RawTensor:
    if isinstance(tensor, RawTensor):
        return tensor
    dtype = f"{tensor.dtype.kind.upper()}{tensor.dtype.itemsize * 8}"
    return RawTensor(dtype, tensor.shape, np.ascontiguousarray(tensor).tobytes())
