"""The real model, by the figures that its own export records."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrs.export.parity.proof import ParityMode
from mrs.export.parity.quality_gate import QualityGate
from mrs.export.pipeline import ExportRequest, export_model
from mrs.export.progress import SilentProgress
from mrs.model_repo.lock import ParityRecord
from mrs.model_repo.repository import ModelRepository


@pytest.mark.parametrize("quant", ["auto", "keep"])
def test_four_bits_stay_near_to_float32(smollm2_gguf: Path, tmp_path: Path, quant: str) -> None:
    request = ExportRequest(
        str(smollm2_gguf),
        name="smollm2",
        quant=quant,
        parity=ParityMode.ALWAYS,
        gate=QualityGate(max_kl=0.006, min_top1=96),
    )
    parity = export_model(request, ModelRepository(tmp_path), SilentProgress()).version.lock.parity
    assert isinstance(parity, ParityRecord)
    assert parity.perplexity == pytest.approx(parity.reference_perplexity, rel=0.01)
    assert parity.tokens == 1204
