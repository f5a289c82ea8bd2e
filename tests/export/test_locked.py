"""Exports that are held to a version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mrs.errors import (
    CorruptVersionError,
    LockedError,
    ModelNotFoundError,
    QualityError,
    QualityUnknownError,
    UsageError,
)
from mrs.export import pipeline
from mrs.export.locked import Difference, artifact_differences, input_differences
from mrs.export.parity.quality_gate import QualityGate
from mrs.model_repo.lock import ModelLock
from tests.export.gguf_files import write_llama
from tests.export.parity.conftest import TinyExport
from tests.model_repo.samples import make_inputs, make_lock, write_files


@pytest.fixture
def tiny(tmp_path: Path) -> TinyExport:
    return TinyExport(tmp_path)


def differences(tiny: TinyExport, **request: Any) -> dict[str, tuple[str | None, str | None]]:
    """What a locked export complains about."""
    before = tiny.files()
    with pytest.raises(LockedError) as caught:
        tiny.export(locked=True, **request)
    assert tiny.files() == before
    assert caught.value.exit_code == 9
    return {each["what"]: (each["locked"], each["now"]) for each in caught.value.differences}


def test_the_same_export_passes_and_changes_nothing(tiny: TinyExport) -> None:
    tiny.measured()
    before = tiny.files()
    assert tiny.export(locked=True).reference == "tiny:1"
    assert tiny.files() == before


def test_options_that_are_left_out_are_the_recorded_ones(tiny: TinyExport) -> None:
    tiny.export(quant="fp32")
    assert tiny.export(locked=True).reference == "tiny:1"


def test_other_options_are_named(tiny: TinyExport) -> None:
    tiny.export(quant="q8")
    assert differences(tiny, quant="fp32") == {"option quant": ("q8", "fp32")}


def test_another_source_is_named_with_both_digests(tiny: TinyExport) -> None:
    locked = tiny.export().lock.inputs.source.files[0].sha256
    write_llama(tiny.gguf, dtype="Q8_0", seed=1)
    ((what, (before, now)),) = differences(tiny).items()
    assert (what, before) == ("source file tiny.gguf", locked)
    assert now != locked


def test_other_tools_are_named(tiny: TinyExport, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tiny.export().lock.inputs.tools
    newer = {**tools, "numpy": "9.9"}
    monkeypatch.setattr(pipeline, "_tool_versions", lambda: newer)
    assert differences(tiny) == {"tool numpy": (tools["numpy"], "9.9")}


def test_other_bytes_from_the_same_input_are_found(
    tiny: TinyExport, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = {file.path: file.sha256 for file in tiny.export().lock.files}
    written = pipeline._write_assets

    def write_more(plan: Any, folder: Path) -> None:
        written(plan, folder)
        (folder / "tokenizer.json").write_bytes(plan.assets.tokenizer_json + b"\n")

    monkeypatch.setattr(pipeline, "_write_assets", write_more)
    ((what, (before, _)),) = differences(tiny).items()
    assert (what, before) == ("file tokenizer.json", locked["tokenizer.json"])


def test_the_newest_version_counts_unless_another_is_named(tiny: TinyExport) -> None:
    tiny.export(quant="q8")
    tiny.export(quant="fp32")
    assert tiny.export(locked=True).reference == "tiny:2"
    assert tiny.export(against="tiny:1").reference == "tiny:1"
    assert differences(tiny, quant="q8") == {"option quant": ("fp32", "q8")}


def test_there_must_be_a_version(tiny: TinyExport) -> None:
    with pytest.raises(ModelNotFoundError):
        tiny.export(locked=True)


def test_a_damaged_version_holds_nothing(tiny: TinyExport) -> None:
    graph = tiny.export().graph_path
    graph.write_bytes(graph.read_bytes()[::-1])
    with pytest.raises(CorruptVersionError):
        tiny.export(locked=True)


def test_a_gate_looks_at_the_recorded_figures(tiny: TinyExport) -> None:
    tiny.measured()
    assert tiny.measured(locked=True, gate=QualityGate(max_kl=0.1)).reference == "tiny:1"
    with pytest.raises(QualityError):
        tiny.measured(locked=True, gate=QualityGate(max_kl=1e-9))
    tiny.export(force=True)
    with pytest.raises(QualityUnknownError):
        tiny.measured(locked=True, gate=QualityGate(max_kl=0.1))


def test_nothing_is_made_by_force(tiny: TinyExport) -> None:
    with pytest.raises(UsageError, match="--force"):
        tiny.export(locked=True, force=True)


# --- the comparison -------------------------------------------------------------------------------


@pytest.fixture
def lock(tmp_path: Path) -> ModelLock:
    write_files(tmp_path / "version")
    return make_lock(tmp_path / "version")


def test_equal_locks_do_not_differ(lock: ModelLock) -> None:
    assert [*artifact_differences(lock, lock)] == []
    assert [*input_differences(lock.inputs, lock.inputs)] == []


def test_files_come_go_and_change(lock: ModelLock) -> None:
    first, second, *rest = lock.files
    now = lock.model_copy(
        update={
            "files": (
                first.model_copy(update={"path": "new"}),
                second.model_copy(update={"sha256": "0" * 64}),
                *rest,
            )
        }
    )
    assert [*artifact_differences(lock, now)] == [
        Difference(f"file {first.path}", first.sha256, None),
        Difference(f"file {second.path}", second.sha256, "0" * 64),
        Difference("file new", None, first.sha256),
    ]


def test_inputs_are_compared_one_by_one() -> None:
    now = make_inputs("fp32").model_copy(update={"tools": {"mrs": "0.2.0", "gguf": "1"}})
    assert [*input_differences(make_inputs(), now)] == [
        Difference("option quant", "q8", "fp32"),
        Difference("tool gguf", None, "1"),
        Difference("tool mrs", "0.1.0", "0.2.0"),
    ]
