"""A tiny model, exported once."""

from __future__ import annotations

import pytest

from mrs.export.parity.proof import ParityMode
from mrs.export.pipeline import ExportRequest, export_model
from mrs.export.progress import SilentProgress
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.version import ModelVersion
from tests.export.gguf_files import write_llama


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> ModelVersion:
    """A random llama of two layers and a context of 128, in float32."""
    folder = tmp_path_factory.mktemp("tiny")
    # Measured: what is not has no 8-bit KV cache.
    source = str(write_llama(folder / "tiny.gguf"))
    request = ExportRequest(source, quant="fp32", parity=ParityMode.ALWAYS)
    return export_model(request, ModelRepository(folder / "repo"), SilentProgress()).version
