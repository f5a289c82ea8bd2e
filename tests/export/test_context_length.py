"""Exports whose context length the user chooses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mrs.errors import LockedError, UnsupportedArchitectureError, UsageError
from mrs.export.pipeline import ExportRequest, export_model
from mrs.export.progress import SilentProgress
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.version import ModelVersion
from tests.export.gguf_files import LlamaSize, llama_metadata, llama_weights, write_gguf


def export(path: Path, **request: Any) -> ModelVersion:
    repository = ModelRepository(path.parent / "repository")
    return export_model(ExportRequest(str(path), **request), repository, SilentProgress()).version


def model(folder: Path, context: int = 128) -> Path:
    metadata = {**llama_metadata(LlamaSize(context=context))}
    return write_gguf(folder / "tiny.gguf", metadata, llama_weights())


def test_the_artifact_has_room_for_what_was_asked(tmp_path: Path) -> None:
    version = export(model(tmp_path), context_length=48)
    assert version.lock.model.context_length == 48
    generation = json.loads((version.path / "generation_config.json").read_text())
    assert generation["max_length"] == 48


def test_the_lock_records_the_option(tmp_path: Path) -> None:
    path = model(tmp_path)
    options = export(path, context_length=48).lock.inputs.options
    assert options == {**export(path).lock.inputs.options, "context_length": "48"}


def test_another_length_is_another_input(tmp_path: Path) -> None:
    path = model(tmp_path)
    references = [export(path, context_length=length).reference for length in (48, 64, 48)]
    assert references == ["tiny:1", "tiny:2", "tiny:1"]


def test_a_locked_export_keeps_the_recorded_length(tmp_path: Path) -> None:
    path = model(tmp_path)
    export(path, context_length=48)
    assert export(path, locked=True).reference == "tiny:1"
    with pytest.raises(LockedError) as caught:
        export(path, locked=True, context_length=64)
    assert caught.value.differences == [
        {"what": "option context_length", "locked": "48", "now": "64"}
    ]


def test_a_length_beyond_all_bounds_is_refused_before_the_source_is_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--context-length is 4194305"):
        export(tmp_path / "missing.gguf", context_length=(1 << 22) + 1)


@pytest.mark.parametrize("context", [1 << 24, (1 << 28) - 1])
def test_a_header_with_a_huge_context_is_refused_with_the_way_out(
    tmp_path: Path, context: int
) -> None:
    path = model(tmp_path, context)
    with pytest.raises(UnsupportedArchitectureError, match=f"room for {context}") as caught:
        export(path)
    assert caught.value.hint is not None and "--context-length" in caught.value.hint
    assert not [file for file in (tmp_path / "repository").rglob("*") if file.is_file()]
    assert export(path, context_length=64).lock.model.context_length == 64
