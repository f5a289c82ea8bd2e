"""Exports that are measured: the figures, where they go, and what stands in their way."""

from __future__ import annotations

import errno
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import softmax
from scipy.stats import entropy

from mrs.errors import (
    QualityError,
    QualityUnknownError,
    RuntimeUnavailableError,
    StorageError,
    UsageError,
)
from mrs.export.parity import reference_size
from mrs.export.parity.figures import LOGITS_BYTES, chunk_length, significant
from mrs.export.parity.proof import (
    ParityMode,
    ReferenceMaker,
)
from mrs.export.parity.quality_gate import QualityGate
from mrs.export.parity.text import tokenize_text
from mrs.model_repo.lock import CacheParityRecord, ParityRecord, UnmeasuredParity
from mrs.model_repo.lock_file import artifact_digest
from mrs.model_repo.measurements import read_measurements
from mrs.model_repo.verification import verify
from mrs.model_repo.version import ModelVersion
from tests.decoding import DirectDecoder
from tests.export.gguf_files import llama_metadata, llama_weights, write_gguf
from tests.export.parity.conftest import TinyExport


def figures(version: ModelVersion) -> ParityRecord:
    assert isinstance(version.lock.parity, ParityRecord)
    return version.lock.parity


def reason(version: ModelVersion) -> str:
    assert isinstance(version.lock.parity, UnmeasuredParity)
    return version.lock.parity.not_measured


def distributions(version: ModelVersion) -> NDArray[np.float64]:
    """The probabilities after each token of the text, by the runtime, token by token."""
    text = tokenize_text(version.tokenizer_path, context_length=128, begin_token=None)
    decoder = DirectDecoder(version.graph_path, version.lock.model, capacity=128)
    logits = [decoder.one_by_one(window.tolist()) for window in text.windows]
    return softmax(np.concatenate(logits).astype(np.float64), axis=1)


def test_the_figures_are_those_of_the_two_graphs(tiny: TinyExport) -> None:
    measured = tiny.measured(quant="q8")
    model, reference = distributions(measured), distributions(tiny.export(quant="fp32"))
    divergence = entropy(reference, model, axis=1)
    agreement = 100 * (reference.argmax(1) == model.argmax(1)).mean()
    assert figures(measured).mean_kl == pytest.approx(divergence.mean(), rel=0.02)
    assert figures(measured).max_kl == pytest.approx(divergence.max(), rel=0.02)
    assert figures(measured).top1 == pytest.approx(agreement, abs=0.5)
    assert figures(measured).tokens == len(model)


def test_float32_is_its_own_reference(tiny: TinyExport) -> None:
    parity = figures(tiny.measured(quant="fp32"))
    assert (parity.mean_kl, parity.max_kl, parity.top1) == (0, 0, 100)
    assert parity.perplexity == parity.reference_perplexity
    assert parity.reference_perplexity == figures(tiny.measured(quant="q8")).reference_perplexity


def test_the_lock_has_the_parity_and_the_repository_the_speed(tiny: TinyExport) -> None:
    version = tiny.measured()
    lock = json.loads((version.path / "mrs.lock").read_text())
    assert lock["parity"]["mean_kl"] == figures(version).mean_kl
    speed = read_measurements(version)
    assert speed is not None
    assert speed.decode_tokens_per_second > 0
    assert speed.prefill_tokens_per_second > 0
    assert verify(version).ok


def test_measuring_again_gives_the_same_lock(tiny: TinyExport) -> None:
    tiny.measured()
    tiny.measured(force=True)
    files = tiny.files()
    first, second = (
        {name.removeprefix(start): data for name, data in files.items() if name.startswith(start)}
        for start in ("tiny/1/", "tiny/2/")
    )
    assert "mrs.lock" in first
    assert first == second


def test_an_artifact_is_the_same_measured_or_not(tiny: TinyExport) -> None:
    measured, unmeasured = tiny.measured(), tiny.export(force=True)
    assert artifact_digest(measured.lock) == artifact_digest(unmeasured.lock)
    assert measured.lock != unmeasured.lock


def test_nothing_is_left_of_the_reference(tiny: TinyExport) -> None:
    tiny.measured()
    assert tiny.leftovers() == [".lock", ".measurements/tiny/1.json"]


def test_what_was_not_asked_for_is_not_measured(tiny: TinyExport) -> None:
    version = tiny.export()
    assert reason(version) == "it was not asked for (--parity never)"
    assert read_measurements(version) is None


def test_a_large_model_is_measured_on_demand_alone(
    tiny: TinyExport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference_size, "MOST_PARAMETERS", 1000)
    version = tiny.measured()
    assert reason(version) == "the model has more than 2 billion parameters"
    assert read_measurements(version) is not None
    assert figures(tiny.export(parity=ParityMode.ALWAYS)).mean_kl > 0


def test_without_onnx_runtime_an_export_goes_on(
    tiny: TinyExport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert reason(tiny.measured()) == "there is no ONNX Runtime to run the graph"
    with pytest.raises(RuntimeUnavailableError, match="ONNX Runtime"):
        tiny.export(parity=ParityMode.ALWAYS)
    assert len(tiny.repository.versions()) == 1


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_that_fills_up_meanwhile_costs_the_figures_alone(
    tiny: TinyExport, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ReferenceMaker.__init__

    def without_room(self: ReferenceMaker, scratch: Any, write: Any) -> None:
        real(self, scratch, full_disk)

    monkeypatch.setattr(ReferenceMaker, "__init__", without_room)
    assert reason(tiny.measured()) == "the float32 graph could not be written"
    with pytest.raises(StorageError, match="No space left"):
        tiny.export(parity=ParityMode.ALWAYS)
    assert tiny.leftovers() == [".lock", ".measurements/tiny/1.json"]


@pytest.mark.filterwarnings("error")
def test_logits_that_are_not_finite_are_no_figures(tmp_path: Path) -> None:
    """The weights are finite, and their products are not."""
    tiny = TinyExport(tmp_path)
    largest = np.full(64, np.finfo(np.float32).max)
    weights = {**llama_weights(), "output_norm.weight": largest}
    write_gguf(tiny.gguf, llama_metadata(), weights)
    assert reason(tiny.measured(quant="fp32")) == "the logits of the text are not finite"


# --- gates ----------------------------------------------------------------------------------------


def test_a_model_that_passes_is_published(tiny: TinyExport) -> None:
    assert tiny.measured(gate=QualityGate(max_kl=0.1, min_top1=50)).reference == "tiny:1"


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        (QualityGate(max_kl=1e-9), "the mean KL is {kl}, above --max-kl 1e-09"),
        (QualityGate(min_top1=100), "top-1 is {top1} %, below --min-top1 100"),
    ],
)
def test_a_model_that_fails_is_not(tiny: TinyExport, gate: QualityGate, said: str) -> None:
    known = figures(tiny.measured(name="other"))
    with pytest.raises(QualityError) as caught:
        tiny.measured(gate=gate)
    assert said.format(kl=known.mean_kl, top1=known.top1) in caught.value.message
    assert caught.value.exit_code == 8
    assert tiny.repository.versions("tiny") == []


def test_a_version_that_is_there_has_to_pass_too(tiny: TinyExport) -> None:
    tiny.measured()
    with pytest.raises(QualityError, match="tiny:1 is not near enough"):
        tiny.measured(gate=QualityGate(max_kl=1e-9))


def test_a_version_without_figures_is_exported_again_for_a_gate(tiny: TinyExport) -> None:
    tiny.export()
    assert tiny.measured().reference == "tiny:1"
    assert tiny.measured(gate=QualityGate(max_kl=0.1)).reference == "tiny:2"
    assert tiny.measured(gate=QualityGate(max_kl=0.1)).reference == "tiny:2"


def test_what_cannot_be_measured_does_not_pass(
    tiny: TinyExport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference_size, "MOST_PARAMETERS", 1000)
    with pytest.raises(QualityUnknownError, match="not measured: the model has more than"):
        tiny.measured(gate=QualityGate(max_kl=100))
    assert tiny.repository.versions() == []


def test_what_could_not_be_measured_is_told_before_the_work(
    tiny: TinyExport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference_size, "MOST_PARAMETERS", 1000)
    monkeypatch.setattr("mrs.export.pipeline.write_model", None)
    with pytest.raises(QualityUnknownError):
        tiny.measured(gate=QualityGate(max_kl=100))


def test_a_gate_needs_a_measurement(tiny: TinyExport) -> None:
    with pytest.raises(UsageError, match="--parity never"):
        tiny.export(gate=QualityGate(max_kl=0.1))


@pytest.mark.parametrize(
    "gate",
    [
        QualityGate(max_kl=-0.1),
        QualityGate(max_kl=float("nan")),
        QualityGate(max_kl=float("inf")),
        QualityGate(min_top1=100.1),
        QualityGate(min_top1=float("nan")),
    ],
)
def test_bounds_that_make_no_sense_are_refused(tiny: TinyExport, gate: QualityGate) -> None:
    with pytest.raises(UsageError, match="must be"):
        tiny.measured(gate=gate)


# --- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("vocabulary", [2, 268, 49_152, 262_144, 10_000_000])
def test_logits_of_a_chunk_are_bounded(vocabulary: int) -> None:
    length = chunk_length(vocabulary)
    assert 1 <= length <= 128
    assert length == 1 or 4 * vocabulary * length <= LOGITS_BYTES


def test_significant_digits() -> None:
    assert [significant(value) for value in (0.0034149, 12345.6, 0.0)] == [0.00341, 12300, 0]


def test_a_disk_without_room_is_an_obstacle(tmp_path: Path) -> None:
    huge = 1 << 60
    assert reference_size.obstacle(1000, tmp_path) is None
    assert reference_size.obstacle(huge, tmp_path) is not None


def test_memory_that_is_short_is_an_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference_size, "available_memory", lambda: 4000)
    assert reference_size.obstacle(900, tmp_path) is None
    assert reference_size.obstacle(1000, tmp_path) == (
        "the float32 graph does not fit the free memory"
    )


def test_available_memory_is_what_the_system_says(tmp_path: Path) -> None:
    file = tmp_path / "meminfo"
    file.write_text("MemTotal: 9 kB\nMemAvailable:    2048 kB\n")
    assert reference_size.available_memory(file) == 2048 * 1024
    file.write_text("nothing\n")
    assert reference_size.available_memory(file) is None
    assert reference_size.available_memory(tmp_path / "missing") is None


def test_an_8_bit_cache_is_measured_beside(tiny: TinyExport) -> None:
    """Against itself with a float32 cache, and against the float32 graph, which it is here."""
    version = tiny.export(quant="fp32", parity=ParityMode.ALWAYS)
    measured = version.lock.int8_cache
    assert isinstance(measured, CacheParityRecord)
    assert isinstance(version.lock.parity, ParityRecord)
    assert measured.tokens == version.lock.parity.tokens
    assert 0 < measured.mean_kl < 0.01
    assert measured.float32_kl == measured.mean_kl
    assert measured.mean_kl <= measured.max_kl


def test_what_is_not_measured_has_no_8_bit_cache_and_is_the_same_artifact(
    tiny: TinyExport,
) -> None:
    version = tiny.export(parity=ParityMode.NEVER)
    assert isinstance(version.lock.int8_cache, UnmeasuredParity)
    assert not version.has_int8_cache
    measured = tiny.export(parity=ParityMode.ALWAYS)
    assert measured.has_int8_cache
    assert artifact_digest(measured.lock) == artifact_digest(version.lock)
