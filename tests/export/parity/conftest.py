from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mrs.export.parity.proof import ParityMode
from mrs.export.pipeline import ExportRequest, export_model
from mrs.export.progress import SilentProgress
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.version import ModelVersion
from tests.export.gguf_files import write_llama


class TinyExport:
    """A tiny checkpoint and a repository to export it into."""

    def __init__(self, folder: Path) -> None:
        self.gguf = write_llama(folder / "tiny.gguf", dtype="Q8_0")
        self.repository = ModelRepository(folder / "repo")

    def export(self, **request: Any) -> ModelVersion:
        """Export it; see `ExportRequest`."""
        return export_model(
            ExportRequest(str(self.gguf), **request), self.repository, SilentProgress()
        ).version

    def measured(self, **request: Any) -> ModelVersion:
        """Export it and measure the result."""
        return self.export(parity=ParityMode.AUTO, **request)

    def files(self) -> dict[str, bytes]:
        """All files of the repository."""
        root = self.repository.root
        found = (path for path in root.rglob("*") if path.is_file())
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}

    def leftovers(self) -> list[str]:
        """All files of the repository that are in no version."""
        return sorted(file for file in self.files() if not file.startswith("tiny/"))


@pytest.fixture
def tiny(tmp_path: Path) -> TinyExport:
    return TinyExport(tmp_path)
