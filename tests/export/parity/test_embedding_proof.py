"""What is measured of an embedding model, and what a gate makes of it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from mrs.errors import QualityError, QualityUnknownError, UsageError
from mrs.export.parity.embedding_proof import ExportedEmbedder, tokenized_lines
from mrs.export.parity.proof import ParityMode
from mrs.export.parity.quality_gate import QualityGate
from mrs.export.parity.text import bundled_text
from mrs.export.pipeline import ExportRequest, export_model
from mrs.export.progress import SilentProgress
from mrs.model_repo.lock import (
    EmbeddingFacts,
    EmbeddingParityRecord,
    ParityRecord,
    UnmeasuredParity,
)
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.version import ModelVersion
from tests import tiny_embedder
from tests.tiny_embedder import CLS, SEP


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_embedder.write_folder(tmp_path_factory.mktemp("proof") / "model")


@pytest.fixture
def repository(tmp_path: Path) -> ModelRepository:
    return ModelRepository(tmp_path)


def export(
    folder: Path,
    repository: ModelRepository,
    quant: str,
    gate: QualityGate | None = None,
    parity: ParityMode = ParityMode.ALWAYS,
) -> ModelVersion:
    request = ExportRequest(
        str(folder), name="m", quant=quant, parity=parity, gate=gate or QualityGate()
    )
    return export_model(request, repository, SilentProgress()).version


def test_float32_is_its_own_reference(folder: Path, repository: ModelRepository) -> None:
    parity = export(folder, repository, "fp32").lock.parity
    assert isinstance(parity, EmbeddingParityRecord)
    assert (parity.mean_cosine, parity.min_cosine) == (1, 1)
    lines = [line for line in bundled_text().splitlines() if line.strip()]
    assert parity.texts == len(lines)
    assert parity.text_sha256 == hashlib.sha256(bundled_text().encode()).hexdigest()


def test_8_bits_are_near_float32(folder: Path, repository: ModelRepository) -> None:
    parity = export(folder, repository, "q8").lock.parity
    assert isinstance(parity, EmbeddingParityRecord)
    assert 0.98 < parity.min_cosine <= parity.mean_cosine < 1


def test_nothing_is_left_of_the_reference(folder: Path, repository: ModelRepository) -> None:
    version = export(folder, repository, "q8")
    names = {path.name for path in version.path.rglob("*")}
    assert "float32" not in names
    assert not list((repository.root / ".staging").glob("*"))


def test_not_measured_unless_asked(folder: Path, repository: ModelRepository) -> None:
    version = export(folder, repository, "q8", parity=ParityMode.NEVER)
    assert isinstance(version.lock.parity, UnmeasuredParity)


def test_a_gate_that_is_not_passed_publishes_nothing(
    folder: Path, repository: ModelRepository
) -> None:
    with pytest.raises(QualityError, match=r"--min-cosine 1\.0"):
        export(folder, repository, "q4", QualityGate(min_cosine=1.0))
    assert repository.versions() == []


def test_a_gate_that_is_passed(folder: Path, repository: ModelRepository) -> None:
    assert export(folder, repository, "fp32", QualityGate(min_cosine=1.0)).number == 1


RECORD = EmbeddingParityRecord(
    text_sha256="ab" * 32, texts=2, tokens=9, mean_cosine=0.9996, min_cosine=0.999
)
LOGITS = ParityRecord(
    text_sha256="ab" * 32,
    tokens=9,
    mean_kl=0.1,
    max_kl=0.2,
    top1=90,
    perplexity=2,
    reference_perplexity=2,
)


def test_the_least_similar_vector_counts() -> None:
    QualityGate(min_cosine=0.999).require("m", RECORD)
    with pytest.raises(QualityError, match=r"0\.999, below --min-cosine 0\.9995") as caught:
        QualityGate(min_cosine=0.9995).require("m", RECORD)
    assert caught.value.figures["parity"]["min_cosine"] == 0.999


@pytest.mark.parametrize("gate", [QualityGate(max_kl=1), QualityGate(min_top1=1, min_cosine=0)])
def test_vectors_have_no_logits(gate: QualityGate) -> None:
    with pytest.raises(QualityUnknownError, match="has no logits"):
        gate.require("m", RECORD)


def test_a_generator_has_no_vectors() -> None:
    with pytest.raises(QualityUnknownError, match="makes no vectors"):
        QualityGate(min_cosine=0.5).require("m", LOGITS)


@pytest.mark.parametrize("bound", [1.01, -1.01, float("nan")])
def test_a_cosine_is_from_minus_1_to_1(bound: float) -> None:
    with pytest.raises(UsageError, match="--min-cosine"):
        QualityGate(min_cosine=bound).check_bounds()


def test_lines_are_cut_to_the_longest_text(folder: Path) -> None:
    facts = EmbeddingFacts(size=64, pooling="mean", normalized=True, max_length=5, end_token_id=SEP)
    model = ExportedEmbedder(folder, facts, CLS, 0, is_reference=True)
    rows = tokenized_lines(model, "a\n\n  \na b c d e f\n")
    assert [len(row) for row in rows] == [3, 5]
    assert all(row[0] == CLS and row[-1] == SEP for row in rows)
