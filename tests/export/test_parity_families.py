"""Every family's logits against transformers, from both kinds of checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from mrs.export.architectures.canonical_gguf import open_canonical_gguf
from mrs.export.architectures.context_length import at_context
from mrs.export.architectures.huggingface import open_huggingface
from mrs.export.architectures.registry import decoder_spec
from mrs.export.architectures.spec import DecoderSpec
from mrs.export.checkpoints.checkpoint import Checkpoint
from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.decoder import build_decoder
from mrs.export.graph.matrix_formats import matrix_format
from mrs.export.graph.weight_file import WeightFile
from mrs.export.graph.weights import Weights
from tests.decoding import DirectDecoder
from tests.reference.families import CASES
from tests.reference.gguf_form import write_gguf_form
from tests.reference.tiny_model import Reference, TinyModel

TOLERANCE = 1e-4
"""Of the logits' range; the issue of rounding is the same at any scale."""


@dataclass(frozen=True)
class Sizes:
    """What a decoder without an artifact must be told."""

    num_layers: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int


def build(
    checkpoint: Checkpoint,
    folder: Path,
    context: int | None = None,
    *,
    slots: int = 1,
    capacity: int = 512,
) -> DirectDecoder:
    spec = at_context(decoder_spec(checkpoint), context)
    assert isinstance(spec, DecoderSpec)
    with WeightFile(folder / "model.onnx.data") as weight_file:
        weights = Weights(checkpoint, matrix_format("fp32"), GraphBuilder(weight_file))
        model = build_decoder(spec, weights)
    ir.save(model, folder / "model.onnx")
    sizes: Any = _sizes(spec)
    return DirectDecoder(folder / "model.onnx", sizes, slots, capacity)


def _sizes(spec: DecoderSpec) -> Sizes:
    return Sizes(spec.num_layers, spec.num_kv_heads, spec.head_dim, spec.vocab_size)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_folder_gives_the_logits_of_transformers(case: TinyModel, tmp_path: Path) -> None:
    checkpoint = open_huggingface(case.write(tmp_path))
    compare(case, build(checkpoint, tmp_path, case.context))


@pytest.mark.parametrize("case", [case for case in CASES if case.gguf], ids=lambda case: case.name)
def test_a_gguf_file_gives_the_logits_of_transformers(case: TinyModel, tmp_path: Path) -> None:
    checkpoint = open_canonical_gguf(write_gguf_form(case, tmp_path))
    compare(case, build(checkpoint, tmp_path, case.context))


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.gguf and case.name.startswith(("mixtral", "deepseek"))],
    ids=lambda case: case.name,
)
def test_a_gguf_file_of_former_times_gives_the_logits_of_transformers(
    case: TinyModel, tmp_path: Path
) -> None:
    checkpoint = open_canonical_gguf(write_gguf_form(case, tmp_path, older=True))
    compare(case, build(checkpoint, tmp_path))


def compare(case: TinyModel, decoder: DirectDecoder) -> None:
    """Token by token, and the last position in one step."""
    expected = Reference.load(case).logits
    limit = TOLERANCE * max(1.0, float(np.ptp(expected)))
    found = decoder.one_by_one(case.prompt())
    assert largest_difference(found, expected) <= limit
    whole = decoder.prefill_last(case.prompt())
    assert largest_difference(whole, expected[-1]) <= limit


def largest_difference(found: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    return float(np.abs(found - expected).max())
