"""The graph's contract: inputs, outputs, initializers, and what it takes from a checkpoint."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from mrs.errors import CorruptCheckpointError, UnsupportedArchitectureError
from tests.export.gguf_files import LlamaSize, llama_weights, quantize
from tests.export.graph.decoders import build, tiny_llama, value_infos
from tests.export.memory_checkpoint import MemoryCheckpoint

FLOAT, INT32, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT32, onnx.TensorProto.INT64
QUANTS = ("fp32", "q8")
VOCABULARY = 268


def load(path: Path) -> onnx.ModelProto:
    return onnx.load(path, load_external_data=False)


def places(model: onnx.ModelProto) -> dict[str, tuple[int, int]]:
    """Offset and length of every initializer in the weight file."""
    return {
        tensor.name: (int(entries["offset"]), int(entries["length"]))
        for tensor in model.graph.initializer
        if (entries := {entry.key: entry.value for entry in tensor.external_data})
    }


def with_tensors(**tensors: Any) -> MemoryCheckpoint:
    checkpoint = tiny_llama()
    return dataclasses.replace(checkpoint, stored={**checkpoint.stored, **tensors})


# --- inputs and outputs ---------------------------------------------------------------------------


@pytest.mark.parametrize("quant", QUANTS)
def test_inputs(tmp_path: Path, quant: str) -> None:
    cache = [FLOAT, ["batch", 2, "capacity", 16]]
    assert value_infos(load(build(tiny_llama(), tmp_path, quant).path).graph.input) == [
        ("input_ids", INT64, ["batch", "sequence"]),
        ("query_seqlens", INT32, ["batch"]),
        ("seqlens_k", INT32, ["batch"]),
        ("total_sequence_length", INT32, []),
        ("logits_indices", INT64, ["rows"]),
        ("past_key_values.0.key", *cache),
        ("past_key_values.0.value", *cache),
        ("past_key_values.1.key", *cache),
        ("past_key_values.1.value", *cache),
    ]


@pytest.mark.parametrize("quant", QUANTS)
def test_outputs(tmp_path: Path, quant: str) -> None:
    cache = [FLOAT, ["batch", 2, "capacity", 16]]
    assert value_infos(load(build(tiny_llama(), tmp_path, quant).path).graph.output) == [
        ("logits", FLOAT, ["rows", VOCABULARY]),
        ("present.0.key", *cache),
        ("present.0.value", *cache),
        ("present.1.key", *cache),
        ("present.1.value", *cache),
    ]


@pytest.mark.parametrize("quant", QUANTS)
def test_onnx_runtime_sees_the_same_shapes(tmp_path: Path, quant: str) -> None:
    path = build(tiny_llama(), tmp_path, quant).path
    session = onnxruntime.InferenceSession(path)
    stated = {name: dims for name, _, dims in value_infos(load(path).graph.output)}
    assert {output.name: output.shape for output in session.get_outputs()} == stated


@pytest.mark.parametrize("quant", QUANTS)
def test_onnx_finds_nothing_wrong(tmp_path: Path, quant: str) -> None:
    onnx.checker.check_model(build(tiny_llama(), tmp_path, quant).path, full_check=True)


# --- the file -------------------------------------------------------------------------------------


@pytest.mark.parametrize("quant", QUANTS)
def test_initializers_are_sorted_by_name(tmp_path: Path, quant: str) -> None:
    model = load(build(tiny_llama(), tmp_path, quant).path)
    names = [tensor.name for tensor in model.graph.initializer]
    assert names == sorted(names)
    assert len(set(names)) == len(names) > 10


@pytest.mark.parametrize("quant", QUANTS)
def test_nothing_of_this_machine_or_moment_is_in_the_graph(tmp_path: Path, quant: str) -> None:
    path = build(tiny_llama(), tmp_path, quant).path
    data, model = path.read_bytes(), load(path)
    assert str(tmp_path).encode() not in data
    assert (model.producer_name, model.producer_version, model.doc_string) == ("mrs", "", "")
    assert not model.metadata_props
    assert not any(node.metadata_props or node.doc_string for node in model.graph.node)


def test_the_same_checkpoint_gives_the_same_bytes_anywhere(tmp_path: Path) -> None:
    files = []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        path = build(tiny_llama(), tmp_path / name, "q8").path
        files.append((path.read_bytes(), path.with_name("model.onnx.data").read_bytes()))
    assert files[0] == files[1]


def test_weights_are_outside_of_the_graph(tmp_path: Path) -> None:
    model = load(build(tiny_llama(), tmp_path).path)
    inside = [tensor.name for tensor in model.graph.initializer if not tensor.external_data]
    assert inside == ["flat_shape"]
    locations = {
        entry.value
        for tensor in model.graph.initializer
        for entry in tensor.external_data
        if entry.key == "location"
    }
    assert locations == {"model.onnx.data"}


@pytest.mark.parametrize("quant", QUANTS)
def test_initializers_do_not_overlap(tmp_path: Path, quant: str) -> None:
    built = build(tiny_llama(), tmp_path, quant)
    spans = sorted(set(places(load(built.path)).values()))
    for (start, length), (following, _) in pairwise(spans):
        assert start + length <= following
    last_start, last_length = spans[-1]
    assert (tmp_path / "model.onnx.data").stat().st_size == last_start + last_length


def test_nodes_and_values_have_names_of_their_own(tmp_path: Path) -> None:
    graph = load(build(tiny_llama(), tmp_path, "q8").path).graph
    nodes = [node.name for node in graph.node]
    made = [output for node in graph.node for output in node.output if output]
    assert len(set(nodes)) == len(nodes)
    assert len(set(made)) == len(made)
    assert not set(made) & {tensor.name for tensor in graph.initializer}


# --- the embedding --------------------------------------------------------------------------------


def test_a_tied_embedding_is_stored_once(tmp_path: Path) -> None:
    place = places(load(build(tiny_llama(), tmp_path, "q8").path))
    assert place["embedding.weight.rows"] == place["embedding.weight.codes"]
    assert place["embedding.weight.rows"][1] == VOCABULARY * 64


@pytest.mark.parametrize(("quant", "weight_bytes"), [("fp32", 4), ("q8", 1 + 5 / 32)])
def test_an_embedding_of_its_own_costs_its_own_bytes(
    tmp_path: Path, quant: str, weight_bytes: float
) -> None:
    sizes = []
    for tied in (True, False):
        folder = tmp_path / str(tied)
        folder.mkdir()
        build(tiny_llama(tied=tied), folder, quant)
        sizes.append((folder / "model.onnx.data").stat().st_size)
    # Each of up to three initializers more begins on a page.
    head = VOCABULARY * 64 * weight_bytes
    assert head <= sizes[1] - sizes[0] < head + 3 * 4096


def test_a_head_of_four_bit_codes_with_offsets(tmp_path: Path) -> None:
    """Its activations have two dimensions, those of the layers three."""
    size = LlamaSize(hidden=512, heads=8, kv_heads=4, feed_forward=512)
    checkpoint = tiny_llama(size, tied=False)
    stored = {
        name: quantize(values, "Q4_1") if values.ndim == 2 else values
        for name, values in llama_weights(size, tied=False).items()
    }
    built = build(dataclasses.replace(checkpoint, stored=stored), tmp_path, "keep")
    assert built.weights.records["output.weight"].stored_as == "int4-block32+offsets"
    assert built.weights.records["token_embd.weight"].stored_as == "int4-block32+offsets"
    onnxruntime.InferenceSession(built.path)


# --- the checkpoint's tensors ---------------------------------------------------------------------


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("quant", QUANTS)
def test_every_tensor_is_recorded(tmp_path: Path, quant: str, tied: bool) -> None:
    checkpoint = tiny_llama(tied=tied)
    assert build(checkpoint, tmp_path, quant).weights.records.keys() == checkpoint.tensors.keys()


@pytest.mark.parametrize("missing", sorted(llama_weights()))
def test_a_missing_tensor_is_named(tmp_path: Path, missing: str) -> None:
    checkpoint = tiny_llama()
    stored = {name: tensor for name, tensor in checkpoint.stored.items() if name != missing}
    with pytest.raises(CorruptCheckpointError, match=missing.replace(".", r"\.")):
        build(dataclasses.replace(checkpoint, stored=stored), tmp_path)


@pytest.mark.parametrize("name", sorted(set(llama_weights()) - {"token_embd.weight"}))
def test_a_tensor_of_another_shape_is_named(tmp_path: Path, name: str) -> None:
    shape = llama_weights()[name].shape
    wrong = np.zeros((*shape[:-1], shape[-1] + 32), dtype=np.float32)
    with pytest.raises(CorruptCheckpointError, match=rf"'{name}' has shape"):
        build(with_tensors(**{name: wrong}), tmp_path)


def test_tensors_that_no_llama_has_are_refused(tmp_path: Path) -> None:
    """As llama.cpp does: they belong to a model that computes something else."""
    norm = np.ones(64, dtype=np.float32)
    checkpoint = with_tensors(**{f"blk.{layer}.attn_sub_norm.weight": norm for layer in range(4)})
    with pytest.raises(UnsupportedArchitectureError) as caught:
        build(checkpoint, tmp_path)
    assert caught.value.message == (
        "The llama model of mrs has no use for the tensor 'blk.0.attn_sub_norm.weight' and 3 more."
    )


def test_more_layers_than_the_header_says_are_refused(tmp_path: Path) -> None:
    checkpoint = tiny_llama()
    metadata = {**checkpoint.metadata, "llama.block_count": 1}
    with pytest.raises(UnsupportedArchitectureError, match=r"'blk\.1\..*' and 8 more"):
        build(dataclasses.replace(checkpoint, metadata=metadata), tmp_path)
