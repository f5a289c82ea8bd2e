from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from mrs.export.checkpoints import mapped_file
from mrs.export.checkpoints.mapped_file import MappedFile

ROW = 1 << 16
ROWS = 1024


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(np.repeat(np.arange(ROWS) % 251, ROW).astype(np.uint8).tobytes())
    return path


def test_a_view_keeps_its_values_when_pages_are_given_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped_file, "_KEPT_BYTES", ROW)
    file = MappedFile(path)
    views = [file.rows(at * ROW, 1, ROW) for at in range(ROWS)]
    assert all(np.all(view == at % 251) for at, view in enumerate(views))
    del views
    file.close()


@pytest.mark.skipif(sys.platform != "linux", reason="memory of a process is counted otherwise")
def test_reading_a_large_file_takes_little_memory(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped_file, "_KEPT_BYTES", 16 * ROW)
    process, file = psutil.Process(), MappedFile(path)
    before, most = process.memory_info().shared, 0
    for at in range(ROWS):
        file.rows(at * ROW, 1, ROW).max()
        most = max(most, process.memory_info().shared - before)
    file.close()
    assert most < ROWS * ROW // 4
