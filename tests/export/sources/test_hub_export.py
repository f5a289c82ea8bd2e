from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import constants

from mrs.export.pipeline import ExportOutcome, ExportRequest, export_model
from mrs.export.progress import SilentProgress
from mrs.model_repo.repository import ModelRepository
from tests.export.gguf_files import write_llama
from tests.export.sources.fake_hub import COMMIT, FakeHub


def export(repository: ModelRepository, source: str) -> ExportOutcome:
    return export_model(ExportRequest(source), repository, SilentProgress())


def test_a_model_of_the_hub_is_exported_and_pinned_to_its_commit(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_llama(tmp_path / "Tiny-F32.gguf").read_bytes()
    hub.repositories["org/Tiny-GGUF"] = {"Tiny-F32.gguf": data, "Tiny-Q4_0.gguf": b""}
    repository = ModelRepository(tmp_path / "models")

    first = export(repository, "org/Tiny-GGUF:Tiny-F32.gguf")
    assert first.version.reference == "tiny:1"
    source = first.version.lock.inputs.source
    assert source.kind == "hub"
    assert source.identifier == f"org/Tiny-GGUF@{COMMIT}:Tiny-F32.gguf"
    assert str(tmp_path) not in (first.version.path / "mrs.lock").read_text()

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    again = export(repository, f"org/Tiny-GGUF@{COMMIT}:Tiny-F32.gguf")
    assert again.reused
    assert again.version.reference == "tiny:1"
