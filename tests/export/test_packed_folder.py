"""GPTQ and AWQ folders, exported: the logits are those of the weights that the codes stand for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mrs.export.architectures.huggingface import open_huggingface
from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.matrix_formats import matrix_format
from mrs.export.graph.weight_file import WeightFile
from mrs.export.graph.weights import Weights
from tests.export.checkpoints.test_quantized_folder import AWQ, GPTQ, Array, Layer, awq, gptq
from tests.export.test_parity_families import build
from tests.reference.families import CASES

CASE = next(case for case in CASES if case.model_type == "llama")
Pack = Callable[[Layer], dict[str, Array]]
PACKED: dict[str, tuple[dict[str, object], Pack]] = {"gptq": (GPTQ, gptq), "awq": (AWQ, awq)}
GROUP = 32


def write_both(folder: Path, method: str) -> tuple[Path, Path]:
    """The same model with its linear layers packed, and in float32."""
    packed, plain = folder / "packed", folder / "plain"
    for path in (packed, plain):
        CASE.write(path)
    tensors = load_file(plain / "model.safetensors")
    floats, codes = dict(tensors), dict(tensors)
    settings, pack = PACKED[method]
    for seed, name in enumerate(sorted(tensors)):
        if "_proj.weight" not in name:
            continue
        layer = Layer(4, GROUP, seed, shape=tensors[name].shape)
        floats[name] = layer.values()
        del codes[name]
        stem = name.removesuffix(".weight")
        codes |= {key.replace("l.", f"{stem}.", 1): value for key, value in pack(layer).items()}
    save_file(floats, plain / "model.safetensors")
    save_file(codes, packed / "model.safetensors")
    config = json.loads((packed / "config.json").read_text())
    config["quantization_config"] = settings | {"group_size": GROUP}
    (packed / "config.json").write_text(json.dumps(config))
    return packed, plain


@pytest.mark.parametrize("method", PACKED)
def test_packed_layers_give_the_logits_of_their_values(tmp_path: Path, method: str) -> None:
    found, wanted = (
        build(open_huggingface(folder), folder).one_by_one(CASE.prompt())
        for folder in write_both(tmp_path, method)
    )
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("quantization", ["auto", "keep", "q4"])
@pytest.mark.parametrize("method", PACKED)
def test_packed_layers_are_kept_exactly(tmp_path: Path, method: str, quantization: str) -> None:
    packed, _ = write_both(tmp_path, method)
    checkpoint = open_huggingface(packed)
    name = "blk.0.ffn_down"
    shape = checkpoint.tensors[f"{name}.weight"].shape
    with WeightFile(tmp_path / "data") as weight_file:
        weights = Weights(checkpoint, matrix_format(quantization), GraphBuilder(weight_file))
        weights.store(name, [weights.rows(name, (shape[0], shape[1]))])
    record = weights.records[f"{name}.weight"]
    assert (record.source_type, record.stored_as) == (f"GROUP4_{GROUP}", "int4-block32")
    assert record.exact
