"""No tensor is needed in vain: whichever a folder lost, its export is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from mrs.errors import CheckpointError
from mrs.export.architectures.huggingface import open_huggingface
from mrs.export.architectures.registry import decoder_spec
from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.decoder import build_decoder
from mrs.export.graph.matrix_formats import matrix_format
from mrs.export.graph.weight_file import WeightFile
from mrs.export.graph.weights import Weights
from tests.reference.families import CASES
from tests.reference.tiny_model import Reference, TinyModel


def _richest() -> list[TinyModel]:
    """Of each family the case with the most tensors in a layer."""
    found: dict[str, TinyModel] = {}
    for case in CASES:
        best = found.get(case.model_type)
        if best is None or len(_lost(case)) > len(_lost(best)):
            found[case.model_type] = case
    return list(found.values())


def _lost(case: TinyModel) -> list[str]:
    """Tensors outside of layers, and those of the first, with its first expert."""
    shapes = Reference.load(case).shapes
    return [name for name in shapes if set(re.findall(r"\.(\d+)\.", name)) <= {"0"}]


@pytest.mark.parametrize("case", _richest(), ids=lambda case: case.name)
def test_a_folder_without_one_of_its_tensors_is_refused(case: TinyModel, tmp_path: Path) -> None:
    stored = case.write(tmp_path) / "model.safetensors"
    whole = load_file(stored)
    unnoticed = []
    for lost in _lost(case):
        save_file({name: values for name, values in whole.items() if name != lost}, stored)
        try:
            _build(tmp_path)
            unnoticed.append(lost)
        except CheckpointError:
            pass
    assert unnoticed == []


def _build(folder: Path) -> None:
    checkpoint = open_huggingface(folder)
    try:
        with WeightFile(folder / "model.onnx.data") as weight_file:
            weights = Weights(checkpoint, matrix_format("fp32"), GraphBuilder(weight_file))
            spec = decoder_spec(checkpoint)
            build_decoder(spec, weights)
    finally:
        checkpoint.close()
        (folder / "model.onnx.data").unlink(missing_ok=True)
