from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mrs.errors import ModelLoadError
from mrs.export.parity.graph_runner import GraphRunner, NotMeasurableError
from tests.decoding import DirectDecoder
from tests.export.parity.conftest import TinyExport

TOKENS = np.random.default_rng(0).integers(0, 268, 50)


def test_logits_are_those_of_the_runtime(tiny: TinyExport) -> None:
    version = tiny.export(quant="fp32")
    expected = DirectDecoder(version.graph_path, version.lock.model, capacity=128).one_by_one(
        TOKENS.tolist()
    )
    runner = GraphRunner(version.graph_path, capacity=50, threads=2)
    chunks = [runner.run(TOKENS[at : at + 16], at, 0).copy() for at in range(0, 50, 16)]
    np.testing.assert_allclose(np.concatenate(chunks), expected, rtol=0, atol=1e-5)
    assert runner.vocabulary == 268


def test_weights_left_in_the_file_give_the_same_logits(tiny: TinyExport) -> None:
    graph = tiny.export(quant="fp32").graph_path
    packed, mapped = (
        GraphRunner(graph, capacity=50, threads=1, mapped=mapped).run(TOKENS, 0, 0)
        for mapped in (False, True)
    )
    np.testing.assert_allclose(packed, mapped, rtol=0, atol=1e-5)


def test_only_the_wanted_logits_are_computed(tiny: TinyExport) -> None:
    runner = GraphRunner(tiny.export().graph_path, capacity=50, threads=1)
    everything = runner.run(TOKENS, 0, 0).copy()
    np.testing.assert_array_equal(runner.run(TOKENS, 0, 47), everything[47:])


def test_a_window_forgets_the_one_before(tiny: TinyExport) -> None:
    runner = GraphRunner(tiny.export().graph_path, capacity=50, threads=1)
    first = runner.run(TOKENS, 0, 0).copy()
    runner.run(TOKENS[::-1].copy(), 0, 0)
    np.testing.assert_array_equal(runner.run(TOKENS, 0, 0), first)


def test_a_graph_without_logits_cannot_be_measured(tiny: TinyExport) -> None:
    path = tiny.gguf.with_name("embedding.onnx")
    ids = helper.make_tensor_value_info("input_ids", TensorProto.FLOAT, [1, "sequence"])
    pooled = helper.make_tensor_value_info("embeddings", TensorProto.FLOAT, [1, "sequence"])
    node = helper.make_node("Identity", ["input_ids"], ["embeddings"])
    graph = helper.make_graph([node], "g", [ids], [pooled])
    opset = helper.make_opsetid("", 21)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=10), path)
    with pytest.raises(NotMeasurableError, match="no logits"):
        GraphRunner(path, capacity=4, threads=1)


def test_a_graph_that_does_not_run_is_an_error(tiny: TinyExport) -> None:
    runner = GraphRunner(tiny.export(quant="fp32").graph_path, capacity=50, threads=1)
    with pytest.raises(ModelLoadError, match="cannot run the exported graph"):
        runner.run(np.array([1 << 40]), 0, 0)


def test_a_graph_that_onnx_runtime_refuses_is_an_error(tiny: TinyExport) -> None:
    path = tiny.gguf.with_name("broken.onnx")
    path.write_bytes(b"no graph")
    with pytest.raises(ModelLoadError, match="cannot load the exported graph broken"):
        GraphRunner(path, capacity=4, threads=1)
