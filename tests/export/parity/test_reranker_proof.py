"""What is measured of a reranker, and what a gate makes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mrs.errors import QualityUnknownError
from mrs.export.parity.proof import ParityMode
from mrs.export.parity.quality_gate import QualityGate
from mrs.export.parity.reranker_proof import DOCUMENTS, QUERIES, agreement
from mrs.model_repo.lock import RerankerParityRecord, UnmeasuredParity
from mrs.model_repo.repository import ModelRepository
from tests import tiny_reranker


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_reranker.write_folder(tmp_path_factory.mktemp("proof") / "model")


def measured(folder: Path, repository: Path, quant: str) -> RerankerParityRecord:
    version = tiny_reranker.export(
        folder, ModelRepository(repository), quant=quant, parity=ParityMode.ALWAYS
    )
    parity = version.lock.parity
    assert isinstance(parity, RerankerParityRecord)
    return parity


def test_float32_is_its_own_reference(folder: Path, tmp_path: Path) -> None:
    parity = measured(folder, tmp_path, "fp32")
    assert (parity.mean_difference, parity.max_difference, parity.agreement) == (0, 0, 100)
    assert parity.pairs == QUERIES * DOCUMENTS


def test_8_bits_are_near_float32(folder: Path, tmp_path: Path) -> None:
    parity = measured(folder, tmp_path, "q8")
    assert 0 < parity.mean_difference <= parity.max_difference < 0.1
    assert 90 < parity.agreement <= 100


def test_not_measured_unless_asked(folder: Path, tmp_path: Path) -> None:
    version = tiny_reranker.export(folder, ModelRepository(tmp_path), quant="q8")
    assert isinstance(version.lock.parity, UnmeasuredParity)


def test_agreement_counts_pairs_of_documents() -> None:
    expected = np.arange(QUERIES * DOCUMENTS, dtype=np.float32)
    swapped = expected.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    pairs = QUERIES * DOCUMENTS * (DOCUMENTS - 1) // 2
    assert agreement(expected, expected) == 100
    assert agreement(-expected, expected) == 0
    assert agreement(swapped, expected) == pytest.approx(100 * (pairs - 1) / pairs)


def test_no_gate_is_passed_by_a_reranker() -> None:
    record = RerankerParityRecord(
        text_sha256="ab" * 32,
        pairs=2,
        tokens=9,
        mean_difference=0,
        max_difference=0,
        agreement=100,
    )
    with pytest.raises(QualityUnknownError, match="ranks texts"):
        QualityGate(min_cosine=0.5).require("m", record)
