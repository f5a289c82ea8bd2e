from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mrs.cli.model_argument import find_model, is_source
from mrs.cli.options import Quantization
from mrs.errors import RuntimeUnavailableError
from mrs.model_repo.repository import ModelRepository
from tests.model_repo.samples import publish


@pytest.mark.parametrize("model", ["pypi:llm==1.0", "PyPI:llm", "./no-such.gguf", "no-such.GGUF"])
def test_packages_and_gguf_files_are_sources(model: str, repository: ModelRepository) -> None:
    assert is_source(model, repository)


@pytest.mark.parametrize("model", ["tiny", "tiny:3", "./folder", "", "\0", "~nobody/x", "x" * 5000])
def test_everything_else_is_a_reference(model: str, repository: ModelRepository) -> None:
    assert not is_source(model, repository)


def test_any_file_is_a_source_and_no_folder_is(tmp_path: Path, repository: ModelRepository) -> None:
    (tmp_path / "weights.bin").touch()
    assert is_source(str(tmp_path / "weights.bin"), repository)
    assert not is_source(str(tmp_path), repository)


def test_a_model_may_be_called_like_a_file(repository: ModelRepository) -> None:
    publish(repository, "tiny.gguf")
    assert not is_source("tiny.gguf", repository)
    assert find_model("tiny.gguf", repository, Quantization.AUTO, silent=True).number == 1


def test_a_reference_needs_no_export_extra(
    repository: ModelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mrs.export.pipeline", None)
    publish(repository)
    assert find_model("tiny", repository, Quantization.AUTO, silent=True).reference == "tiny:1"


def test_a_source_without_the_extra_says_what_to_install(
    repository: ModelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("mrs.export.pipeline")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx_ir", None)
    with pytest.raises(RuntimeUnavailableError, match="pypi:llm has to be exported") as caught:
        find_model("pypi:llm", repository, Quantization.AUTO, silent=True)
    assert "mrs-onnx[export]" in caught.value.hint
