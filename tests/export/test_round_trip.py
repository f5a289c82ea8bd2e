"""GGUF files of every type, exported with ``--quant keep``: the graph has the values of gguf."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper

from mrs.export.pipeline import ExportRequest, export_model
from mrs.export.progress import SilentProgress
from mrs.export.quantization.block_types import BLOCK_DTYPES
from mrs.model_repo.repository import ModelRepository
from tests.export.gguf_files import (
    LlamaSize,
    StoredTensor,
    TensorItem,
    dequantize,
    llama_metadata,
    llama_weights,
    quantize,
    random_blocks,
    write_gguf,
)

Floats = NDArray[np.float32]
Initializers = Mapping[str, NDArray[np.generic]]

# Rows of 256, the largest block of any type.
SIZE = LlamaSize(layers=1, hidden=256, heads=4, kv_heads=2, feed_forward=256)
FLOATS = ("F32", "F16", "BF16")
# Types that the gguf package writes; of the others there are random blocks.
WRITTEN = ("F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4")

# Where each tensor is in the graph: the matrix, and its first row.
PLACES = {
    "token_embd": ("embedding.weight", 0),
    "blk.0.attn_v": ("blk.0.attn_qkv.weight", SIZE.hidden + 2 * SIZE.head_dim),
    "blk.0.attn_output": ("blk.0.attn_output.weight", 0),
    "blk.0.ffn_gate": ("blk.0.ffn_gate_up.weight", 0),
    "blk.0.ffn_up": ("blk.0.ffn_gate_up.weight", SIZE.feed_forward),
    "blk.0.ffn_down": ("blk.0.ffn_down.weight", 0),
}


def stored(values: Floats, dtype: str, seed: int) -> TensorItem:
    if values.ndim == 1 or dtype == "F32":
        return values
    if dtype in WRITTEN:
        return quantize(values, dtype)
    return random_blocks(dtype, values.shape, seed)


def values_of(item: TensorItem) -> Floats:
    if isinstance(item, StoredTensor):
        return dequantize(item)
    return item.astype(np.float32)


def unpacked(packed: NDArray[np.generic], bits: int, count: int) -> NDArray[np.float64]:
    """Codes along the last axis, the first in the lowest bits of a byte."""
    codes = [(packed.astype(np.int64) >> at) & (2**bits - 1) for at in range(0, 8, bits)]
    return np.stack(codes, axis=-1).reshape(*packed.shape[:-1], -1)[..., :count].astype(np.float64)


def graph_values(graph: Initializers, name: str) -> Floats:
    """A stored matrix: real numbers, rounded to float32 once."""
    if name in graph:
        return graph[name].astype(np.float32)
    scales = graph[f"{name}.scales"].astype(np.float64)
    rows, blocks = scales.shape
    packed = graph.get(f"{name}.rows", graph.get(f"{name}.codes"))
    assert packed is not None
    bits = 8 * packed.size // (rows * SIZE.hidden)
    codes = unpacked(packed.reshape(rows, -1), bits, SIZE.hidden).reshape(rows, blocks, -1)
    zero_points = np.full(scales.shape, 2.0 ** (bits - 1))
    if f"{name}.zero_points" in graph:
        zero_points = unpacked(graph[f"{name}.zero_points"], bits, blocks)
    found = scales[..., None] * (codes - zero_points[..., None])
    if f"{name}.offsets" in graph:
        found += graph[f"{name}.offsets"].astype(np.float64)[..., None]
    values: Floats = found.reshape(rows, -1).astype(np.float32)
    return values


@pytest.mark.parametrize("dtype", [*BLOCK_DTYPES, *FLOATS])
def test_the_graph_has_the_values_of_the_file_bit_for_bit(tmp_path: Path, dtype: str) -> None:
    weights = llama_weights(SIZE)
    tensors = {
        name: stored(values, dtype, seed) for seed, (name, values) in enumerate(weights.items())
    }
    path = write_gguf(tmp_path / "tiny.gguf", llama_metadata(SIZE), tensors)
    request = ExportRequest(str(path), quant="keep")
    version = export_model(request, ModelRepository(tmp_path / "repo"), SilentProgress()).version
    graph = {
        each.name: numpy_helper.to_array(each)
        for each in onnx.load(version.graph_path).graph.initializer
    }
    for stem, (matrix, first) in PLACES.items():
        expected = values_of(tensors[f"{stem}.weight"])
        found = graph_values(graph, matrix)[first : first + len(expected)]
        np.testing.assert_array_equal(found, expected)
        record = version.lock.quantization[f"{stem}.weight"]
        assert (record.source_type, record.exact) == (dtype, True)
