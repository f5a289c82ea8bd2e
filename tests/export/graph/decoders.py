"""The tiny llama as a graph, without a file or a tokenizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
from numpy.typing import NDArray

from mrs.export.architectures.registry import decoder_spec
from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.decoder import build_decoder
from mrs.export.graph.matrix_formats import matrix_format
from mrs.export.graph.weight_file import WeightFile
from mrs.export.graph.weights import Weights
from tests.export.gguf_files import LlamaSize, TensorItem, llama_metadata, llama_weights
from tests.export.memory_checkpoint import MemoryCheckpoint

SIZE = LlamaSize()


def tiny_llama(size: LlamaSize = SIZE, *, tied: bool = True) -> MemoryCheckpoint:
    """The tiny llama in float32; its ``stored`` and ``metadata`` may be changed."""
    tensors: dict[str, TensorItem] = {**llama_weights(size, tied=tied)}
    return MemoryCheckpoint(tensors, dict(llama_metadata(size)))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Built:
    """A decoder graph and its weights.

    Attributes:
        path: of ``model.onnx``.
        weights: what was stored, and how.
    """

    path: Path
    weights: Weights


@contextmanager
def building(checkpoint: MemoryCheckpoint, folder: Path, quant: str) -> Iterator[Weights]:
    """Weights over an empty graph whose weight file is in ``folder``."""
    with WeightFile(folder / "model.onnx.data") as weight_file:
        yield Weights(checkpoint, matrix_format(quant), GraphBuilder(weight_file))


def build(checkpoint: MemoryCheckpoint, folder: Path, quant: str = "fp32") -> Built:
    """Write ``model.onnx`` and ``model.onnx.data``."""
    with building(checkpoint, folder, quant) as weights:
        model = build_decoder(decoder_spec(checkpoint), weights)
    ir.save(model, folder / "model.onnx")
    return Built(folder / "model.onnx", weights)


def value_infos(values: Any) -> list[tuple[str, int, list[int | str]]]:
    """Name, element type and dimensions of ONNX graph inputs or outputs."""
    return [
        (
            value.name,
            value.type.tensor_type.elem_type,
            [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim],
        )
        for value in values
    ]


def logits(path: Path, tokens: Sequence[int]) -> NDArray[np.float32]:
    """Logits ``[tokens, vocabulary]`` of every position, computed in one step."""
    session = onnxruntime.InferenceSession(path)
    count = len(tokens)
    feeds: dict[str, NDArray[Any]] = {
        "input_ids": np.array([tokens], dtype=np.int64),
        "query_seqlens": np.array([count], dtype=np.int32),
        "seqlens_k": np.array([count - 1], dtype=np.int32),
        "total_sequence_length": np.array(count, dtype=np.int32),
        "logits_indices": np.arange(count, dtype=np.int64),
    }
    for cache in session.get_inputs():
        if cache.name.startswith("past_key_values."):
            shape = (1, cache.shape[1], count, cache.shape[3])
            feeds[cache.name] = np.zeros(shape, dtype=np.float32)
    found: NDArray[np.float32] = session.run(["logits"], feeds)[0]
    return found
