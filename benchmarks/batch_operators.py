"""Which operators of a decoder give a row other bits beside other rows than alone.

    python -m benchmarks.batch_operators /tmp/models/NAME/1

Every kind of node of the first layers runs by itself: a row alone, and as often as a batch has it,
as one token each (decode) or as several (prefill). Printed is, for each operator and batch, the
largest difference of any of its rows, relative to the largest value. Of attention it is that of a
prompt's tokens computed in pieces, by the size of a piece, from their values computed at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import helper

BATCHES = (2, 4, 8, 16, 32)
PIECES = (1, 2, 3, 16, 100)
_PROMPT = 300
_LAYERS = ("blk.0.", "blk.1.", "output_norm", "head")
_SKIPPED = {"Gather", "GatherBlockQuantized", "GroupQueryAttention", "Split", "Reshape", "Concat"}


def nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """One node of each operator and shape of weights."""
    seen = set()
    shapes = {one.name: tuple(one.dims) for one in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type in _SKIPPED or not node.name.startswith(_LAYERS):
            continue
        kind = (node.op_type, tuple(shapes.get(name) for name in node.input))
        if kind not in seen:
            seen.add(kind)
            yield node


def session(
    model: onnx.ModelProto,
    node: onnx.NodeProto,
    threads: int,
    types: Mapping[str, int] = MappingProxyType({}),
) -> tuple[ort.InferenceSession, list[str]]:
    """A session on a node alone, and the names of its inputs that are no weights.

    Args:
        types: of inputs that are no float32.
    """
    weights = {one.name: one for one in model.graph.initializer}
    inputs = [name for name in node.input if name and name not in weights]
    outputs = list(node.output) if types else node.output[:1]
    graph = helper.make_graph(
        [node],
        node.name,
        [
            helper.make_tensor_value_info(name, types.get(name, onnx.TensorProto.FLOAT), None)
            for name in inputs
        ],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs],
        [weights[name] for name in node.input if name in weights],
    )
    alone = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    return ort.InferenceSession(alone.SerializeToString(), options), inputs


def difference(
    runner: ort.InferenceSession, inputs: list[str], width: int, batch: int, tokens: int
) -> float:
    row = np.random.default_rng(0).standard_normal((1, tokens, width)).astype(np.float32)

    def run(count: int) -> NDArray[np.float32]:
        (found,) = runner.run(None, dict.fromkeys(inputs, np.repeat(row, count, axis=0)))
        return np.asarray(found)

    alone, beside = run(1), run(batch)
    return float(np.abs(alone - beside).max() / np.abs(alone).max())


def attention_differences(model: onnx.ModelProto, threads: int) -> list[float]:
    """For each of `PIECES`."""
    node = next(one for one in model.graph.node if one.op_type == "GroupQueryAttention")
    shapes = {one.name: one.type.tensor_type.shape.dim for one in model.graph.input}
    heads, size = (shapes["past_key_values.0.key"][axis].dim_value for axis in (1, 3))
    named = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    width = (named["num_heads"] + 2 * heads) * size
    runner, inputs = attention_session(model, node, threads)
    random = np.random.default_rng(0)
    packed = random.standard_normal((1, _PROMPT, width)).astype(np.float32)
    caches = [np.zeros((1, heads, _PROMPT, size), np.float32) for _ in range(2)]

    def run(past: int, new: int) -> list[NDArray[np.float32]]:
        feed = {
            inputs[0]: packed[:, past : past + new],
            "past_key_values.0.key": caches[0],
            "past_key_values.0.value": caches[1],
            "seqlens_k": np.array([past + new - 1], np.int32),
            "total_sequence_length": np.array(past + new, np.int32),
            "query_seqlens": np.array([new], np.int32),
        }
        return list(runner.run(None, feed))

    whole, *caches = run(0, _PROMPT)
    starts = range(1, _PROMPT - max(PIECES), 13)
    return [
        max(float(np.abs(run(at, piece)[0] - whole[:, at : at + piece]).max()) for at in starts)
        / float(np.abs(whole).max())
        for piece in PIECES
    ]


def attention_session(
    model: onnx.ModelProto, node: onnx.NodeProto, threads: int
) -> tuple[ort.InferenceSession, list[str]]:
    whole = ("seqlens_k", "total_sequence_length", "query_seqlens")
    return session(model, node, threads, dict.fromkeys(whole, onnx.TensorProto.INT32))


def width_of(model: onnx.ModelProto, node: onnx.NodeProto) -> int:
    for attribute in node.attribute:
        if attribute.name == "K":
            return int(attribute.i)
    dims = {one.name: one.dims for one in model.graph.initializer}
    vectors = [dims[name][0] for name in node.input if name in dims and len(dims[name]) == 1]
    return int(vectors[0]) if vectors and vectors[0] > 1 else 1536


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", type=Path, help="folder of an exported version")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    model = onnx.load(str(arguments.version / "cpu" / "model.onnx"))
    for tokens in (1, 8):
        print(f"{tokens} tokens a row".ljust(54) + "".join(f"{f'1 of {n}':>10}" for n in BATCHES))
        for node in nodes(model):
            width = width_of(model, node)
            runner, inputs = session(model, node, arguments.threads)
            try:
                found = [difference(runner, inputs, width, n, tokens) for n in BATCHES]
            except Exception as error:
                print(f"{node.op_type:36}{node.name:18} not by itself: {str(error)[:60]!r}")
                continue
            print(f"{node.op_type:36}{node.name:18}" + "".join(f"{one:10.1e}" for one in found))
    found = attention_differences(model, arguments.threads)
    print("attention, in pieces of".ljust(54) + "".join(f"{n:>10}" for n in PIECES))
    print(" " * 54 + "".join(f"{one:10.1e}" for one in found))


if __name__ == "__main__":
    main()
