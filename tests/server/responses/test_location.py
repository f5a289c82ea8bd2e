from __future__ import annotations

from pathlib import Path

import pytest

from mrs.server.responses.location import responses_file


def test_a_file_that_is_named() -> None:
    assert responses_file(Path("/x/y.db")) == Path("/x/y.db")


def test_memory_is_no_file() -> None:
    assert responses_file(Path(":memory:")) is None


def test_the_usual_file_is_among_the_data_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platformdirs.user_data_path", lambda name: tmp_path / name)
    assert responses_file(None) == tmp_path / "mrs" / "responses.db"


def test_where_nothing_can_be_written_memory_must_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("platformdirs.user_data_path", lambda name: tmp_path / "file" / name)
    assert responses_file(None) is None
    assert "in memory" in caplog.text
