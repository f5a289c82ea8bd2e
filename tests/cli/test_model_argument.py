from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mrs.cli.model_argument import find_model, is_source
from mrs.cli.options import Quantization
from mrs.errors import RuntimeUnavailableError
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.version import ModelVersion
from tests.export.gguf_files import write_llama
from tests.model_repo.samples import publish


@pytest.mark.parametrize(
    "model",
    [
        "pypi:llm==1.0",
        "PyPI:llm",
        "./no-such.gguf",
        "no-such.GGUF",
        "org/name",
        "org/name@v1",
        "org/name:m.gguf",
    ],
)
def test_packages_repositories_and_gguf_files_are_sources(
    model: str, repository: ModelRepository
) -> None:
    assert is_source(model, repository)


@pytest.mark.parametrize("model", ["tiny", "tiny:3", "./folder", "", "\0", "~nobody/x", "x" * 5000])
def test_everything_else_is_a_reference(model: str, repository: ModelRepository) -> None:
    assert not is_source(model, repository)


def test_any_file_is_a_source(tmp_path: Path, repository: ModelRepository) -> None:
    (tmp_path / "weights.bin").touch()
    assert is_source(str(tmp_path / "weights.bin"), repository)


def test_a_folder_is_a_source_if_it_holds_a_checkpoint(
    tmp_path: Path, repository: ModelRepository
) -> None:
    assert not is_source(str(tmp_path), repository)
    (tmp_path / "config.json").touch()
    assert is_source(str(tmp_path), repository)
    (tmp_path / "mrs.lock").touch()
    assert not is_source(str(tmp_path), repository)


def test_a_name_in_the_repository_goes_before_a_folder_here(
    tmp_path: Path, repository: ModelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "config.json").touch()
    assert is_source("tiny", repository)
    publish(repository, "tiny")
    assert not is_source("tiny", repository)
    assert is_source("./tiny", repository)


def test_a_folder_of_a_version_is_no_repository_of_the_hub(
    tmp_path: Path, repository: ModelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_source("models/tiny", repository)
    (tmp_path / "models" / "tiny").mkdir(parents=True)
    assert not is_source("models/tiny", repository)


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
    monkeypatch.setitem(sys.modules, "onnx_ir", None)
    with pytest.raises(RuntimeUnavailableError, match="pypi:llm has to be exported") as caught:
        find_model("pypi:llm", repository, Quantization.AUTO, silent=True)
    assert "mrs-onnx[export]" in caught.value.hint


def test_who_wants_an_8_bit_cache_gets_an_export_that_has_one(
    tmp_path: Path, repository: ModelRepository
) -> None:
    source = str(write_llama(tmp_path / "tiny.gguf"))

    def find(**wishes: bool) -> ModelVersion:
        return find_model(source, repository, Quantization.FP32, silent=True, **wishes)

    plain = find()
    assert not plain.has_int8_cache
    assert find() == plain
    measured = find(int8_cache=True)
    assert measured.has_int8_cache
    assert measured.number == 2
    assert find(int8_cache=True).number == 2
