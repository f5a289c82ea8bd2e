"""The graph over an 8-bit cache: the same but for caches and scales."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mrs.export.graph.int8_cache import SCALES_FILE, use_int8_cache
from mrs.export.parity.graph_runner import GraphRunner
from tests.export.graph.decoders import SIZE, build, tiny_llama

CHANNELS = SIZE.kv_heads * SIZE.head_dim
TOKENS = np.arange(40, dtype=np.int64)


@pytest.fixture
def int8(tmp_path: Path) -> Path:
    """The graph; all its scales are 0.05."""
    path = build(tiny_llama(), tmp_path).path
    model = ir.load(path)
    use_int8_cache(model)
    ir.save(model, tmp_path / "model.int8kv.onnx")
    scales = np.full(2 * SIZE.layers * CHANNELS, 0.05, np.float32)
    (tmp_path / SCALES_FILE).write_bytes(scales.tobytes())
    return tmp_path / "model.int8kv.onnx"


def test_no_weight_is_stored_twice(int8: Path) -> None:
    """The weights are those of the other graph, the scales another file's, side by side."""
    graphs = [onnx.load(path, load_external_data=False).graph for path in (
        int8.with_name("model.onnx"), int8
    )]  # fmt: skip
    stored = [
        {
            tensor.name: {entry.key: entry.value for entry in tensor.external_data}
            for tensor in graph.initializer
            if tensor.external_data
        }
        for graph in graphs
    ]
    scales = {name: stored[1].pop(name) for name in list(stored[1]) if name not in stored[0]}
    assert stored[0] == stored[1]
    assert {entry["location"] for entry in scales.values()} == {SCALES_FILE}
    assert [int(entry["offset"]) for _, entry in sorted(scales.items())] == [
        4 * CHANNELS * index for index in range(2 * SIZE.layers)
    ]
    names = [tensor.name for tensor in graphs[1].initializer]
    assert names == sorted(names)


def test_the_caches_are_bytes(int8: Path) -> None:
    graph = onnx.load(int8, load_external_data=False).graph
    caches = [
        value.type.tensor_type.elem_type
        for value in (*graph.input, *graph.output)
        if value.name.startswith(("past_key_values", "present"))
    ]
    assert caches == [onnx.TensorProto.INT8] * 4 * SIZE.layers


def test_the_cache_holds_what_the_scales_make_of_keys_and_values(int8: Path) -> None:
    """Of the first layer, whose input does not depend on the cache."""
    floats = GraphRunner(int8.with_name("model.onnx"), capacity=40, threads=1)
    integers = GraphRunner(int8, capacity=40, threads=1)
    for runner in (floats, integers):
        runner.run(TOKENS, 0, 39)
    for plain, rounded in zip(floats.cached(40)[0], integers.cached(40)[0], strict=True):
        assert rounded.dtype == np.int8
        exact = np.clip(plain / 0.05, -128, 127)
        assert np.abs(exact - rounded).max() <= 0.5001
