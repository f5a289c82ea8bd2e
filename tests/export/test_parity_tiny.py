"""Logits of tiny llamas against transformers, over the variations that break exporters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mrs.export.pipeline import ExportRequest, export_model
from mrs.export.progress import SilentProgress
from mrs.model_repo.repository import ModelRepository
from tests.decoding import DirectDecoder
from tests.reference.tiny_llama import VARIATIONS, TinyLlama

REFERENCE = np.load(Path(__file__).parents[1] / "data" / "reference" / "tiny_llama.npz")


@pytest.fixture(params=VARIATIONS, ids=lambda tiny: tiny.name)
def tiny(request: pytest.FixtureRequest) -> TinyLlama:
    return request.param  # type: ignore[no-any-return]


def decoder(tiny: TinyLlama, folder: Path, quant: str = "fp32") -> DirectDecoder:
    request = ExportRequest(str(tiny.write(folder / "tiny.gguf")), quant=quant)
    version = export_model(request, ModelRepository(folder / "repo"), SilentProgress()).version
    return DirectDecoder(version.graph_path, version.lock.model, capacity=128)


def test_decode_equals_transformers_at_every_position(tiny: TinyLlama, tmp_path: Path) -> None:
    ours = decoder(tiny, tmp_path).one_by_one(tiny.prompt())
    np.testing.assert_allclose(ours, REFERENCE[tiny.name], rtol=0, atol=1e-4)


def test_prefill_equals_transformers(tiny: TinyLlama, tmp_path: Path) -> None:
    ours = decoder(tiny, tmp_path).prefill_last(tiny.prompt())
    np.testing.assert_allclose(ours, REFERENCE[tiny.name][-1], rtol=0, atol=1e-4)


def test_eight_bits_stay_near(tiny: TinyLlama, tmp_path: Path) -> None:
    """Within what 8-bit weights and activations cost here, far from what a misplaced row would."""
    ours = decoder(tiny, tmp_path, "q8").one_by_one(tiny.prompt())
    theirs = REFERENCE[tiny.name]
    error = np.linalg.norm(ours - theirs) / np.linalg.norm(theirs)
    assert 0 < error < 0.06
