from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mrs.errors import (
    CorruptVersionError,
    InvalidReferenceError,
    ModelNotFoundError,
    StorageError,
)
from mrs.model_repo.repository import ModelRepository, default_root
from mrs.model_repo.version import BrokenVersion
from tests.model_repo.samples import listing, publish


def references(repository: ModelRepository, name: str | None = None) -> list[str]:
    return [version.reference for version in repository.versions(name)]


def test_a_repository_that_does_not_exist_is_empty_and_stays_so(
    repository: ModelRepository,
) -> None:
    assert repository.versions() == []
    assert repository.names() == []
    assert repository.gc().bytes_freed == 0
    with pytest.raises(ModelNotFoundError):
        repository.remove("tiny")
    assert not repository.root.exists()


def test_versions_are_sorted_by_name_and_number(repository: ModelRepository) -> None:
    for _ in range(11):
        publish(repository, "b")
    publish(repository, "a")
    assert references(repository) == ["a:1", *(f"b:{number}" for number in range(1, 12))]
    assert references(repository, "a") == ["a:1"]
    assert references(repository, "none") == []


def test_a_bare_name_is_the_newest_version(repository: ModelRepository) -> None:
    for _ in range(10):
        publish(repository)
    assert repository.resolve("tiny").number == 10
    assert repository.resolve("tiny:9").number == 9


def test_a_version_knows_its_files(repository: ModelRepository) -> None:
    version = publish(repository, content=b"xyz")
    assert version == repository.resolve("tiny:1")
    assert version.graph_path.read_bytes() == b"xyz"
    assert version.tokenizer_path.read_text() == "{}"
    assert not version.chat_template_path.exists()
    assert version.path == repository.root / "tiny" / "1"


def test_a_folder_is_a_version_without_a_number(
    repository: ModelRepository, tmp_path: Path
) -> None:
    published = publish(repository)
    copy = tmp_path / "elsewhere"
    shutil.copytree(published.path, copy)
    version = ModelRepository(tmp_path / "none").resolve(str(copy))
    assert (version.name, version.number, version.path) == ("tiny", None, copy)
    assert version.reference == str(copy)
    assert version.lock == published.lock


def test_a_relative_folder_counts_from_the_working_folder(
    repository: ModelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = publish(repository)
    monkeypatch.chdir(published.path.parent)
    assert repository.resolve("./1").path == published.path
    monkeypatch.chdir(published.path)
    assert repository.resolve(".").path == published.path


def test_a_gguf_file_is_answered_with_the_command_that_exports_it(
    repository: ModelRepository, tmp_path: Path
) -> None:
    path = tmp_path / "m.gguf"
    path.touch()
    with pytest.raises(ModelNotFoundError) as caught:
        repository.resolve(str(path))
    assert f"mrs export {path}" in caught.value.hint


def test_an_unknown_name_is_answered_with_near_ones(repository: ModelRepository) -> None:
    publish(repository, "smollm2-135m-instruct")
    publish(repository, "qwen2.5-0.5b")
    with pytest.raises(ModelNotFoundError) as caught:
        repository.resolve("smolm2-135m")
    assert caught.value.hint == "Did you mean smollm2-135m-instruct?"


def test_an_unknown_version_is_answered_with_those_there_are(
    repository: ModelRepository,
) -> None:
    publish(repository)
    publish(repository)
    with pytest.raises(ModelNotFoundError) as caught:
        repository.resolve("tiny:3")
    assert caught.value.hint == "It has tiny:1, tiny:2."


def test_an_empty_repository_is_answered_with_how_to_fill_it(
    repository: ModelRepository,
) -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        repository.resolve("tiny")
    assert "mrs export" in caught.value.hint


def test_a_broken_version_is_told_and_hides_no_other(repository: ModelRepository) -> None:
    publish(repository)
    broken = publish(repository)
    (broken.path / "mrs.lock").write_text("{")
    assert references(repository) == ["tiny:1"]
    entry = repository.entries()[1]
    assert isinstance(entry, BrokenVersion)
    assert entry.reference == "tiny:2"
    assert "malformed" in entry.error.message


def test_an_older_version_never_stands_in_for_a_broken_newest(
    repository: ModelRepository,
) -> None:
    publish(repository)
    (publish(repository).path / "mrs.lock").unlink()
    with pytest.raises(CorruptVersionError):
        repository.resolve("tiny")
    assert repository.resolve("tiny:1").number == 1


def test_a_linked_version_is_broken(repository: ModelRepository, tmp_path: Path) -> None:
    version = publish(repository)
    version.path.rename(tmp_path / "outside")
    version.path.symlink_to(tmp_path / "outside")
    (entry,) = repository.entries()
    assert isinstance(entry, BrokenVersion)
    with pytest.raises(CorruptVersionError, match="not a folder"):
        repository.resolve("tiny:1")


def test_a_linked_model_folder_is_not_followed(repository: ModelRepository, tmp_path: Path) -> None:
    publish(repository, "real")
    (repository.root / "real").rename(tmp_path / "outside")
    (repository.root / "real").symlink_to(tmp_path / "outside")
    assert repository.entries() == []
    with pytest.raises(ModelNotFoundError):
        repository.resolve("real:1")
    with pytest.raises(StorageError, match="symbolic link"):
        publish(repository, "real")
    assert listing(tmp_path / "outside") == ["1"]


def test_what_is_no_version_is_left_alone(repository: ModelRepository) -> None:
    publish(repository)
    for stray in ["tiny/notes.txt", "tiny/01", "tiny/0", "README", "UPPER/1", ".hidden/1"]:
        path = repository.root / stray
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert references(repository) == ["tiny:1"]
    repository.gc()
    assert (repository.root / "README").exists()
    assert (repository.root / "UPPER" / "1").exists()


def test_a_repository_that_is_a_file_is_an_error_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "models").write_bytes(b"")
    repository = ModelRepository(tmp_path / "models")
    for action in (repository.versions, repository.gc, lambda: publish(repository)):
        with pytest.raises(StorageError, match="models: Not a directory") as caught:
            action()
        assert "--repo" in caught.value.hint


def test_a_version_is_found_by_its_inputs(repository: ModelRepository) -> None:
    first = publish(repository, quant="q8")
    publish(repository, quant="fp32")
    newest = publish(repository, quant="q8")
    assert repository.find_by_input("tiny", first.lock.input_digest) == newest
    assert repository.find_by_input("tiny", "0" * 64) is None
    assert repository.find_by_input("other", first.lock.input_digest) is None


def test_a_version_with_a_missing_file_is_not_found_by_its_inputs(
    repository: ModelRepository,
) -> None:
    version = publish(repository)
    version.graph_path.unlink()
    assert repository.find_by_input("tiny", version.lock.input_digest) is None


def test_a_removed_version_is_gone_and_its_bytes_counted(repository: ModelRepository) -> None:
    publish(repository)
    version = publish(repository)
    size = version.size + (version.path / "mrs.lock").stat().st_size
    assert repository.remove("tiny:2") == size
    assert references(repository) == ["tiny:1"]
    assert listing(repository.root / ".trash") == []


def test_the_last_version_takes_its_model_with_it(repository: ModelRepository) -> None:
    publish(repository)
    repository.remove("tiny")
    assert repository.names() == []


def test_a_bare_name_does_not_choose_what_to_remove(repository: ModelRepository) -> None:
    publish(repository)
    publish(repository)
    with pytest.raises(InvalidReferenceError) as caught:
        repository.remove("tiny")
    assert caught.value.hint == "Name one of them: tiny:1, tiny:2."
    assert len(repository.versions()) == 2


def test_a_broken_version_can_be_removed(repository: ModelRepository) -> None:
    (publish(repository).path / "mrs.lock").unlink()
    repository.remove("tiny:1")
    assert repository.entries() == []


def test_a_folder_is_not_removed(repository: ModelRepository) -> None:
    version = publish(repository)
    with pytest.raises(InvalidReferenceError):
        repository.remove(str(version.path))
    assert version.path.exists()


def test_removing_a_linked_version_leaves_what_it_points_to(
    repository: ModelRepository, tmp_path: Path
) -> None:
    version = publish(repository)
    version.path.rename(tmp_path / "outside")
    version.path.symlink_to(tmp_path / "outside")
    repository.remove("tiny:1")
    assert (tmp_path / "outside" / "mrs.lock").exists()
    assert repository.entries() == []


def test_the_variable_names_the_default_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("MRS_MODEL_REPO", "~/repo")
    assert default_root() == Path("/home/someone/repo")


@pytest.mark.parametrize("value", [None, ""])
def test_without_it_the_default_is_in_the_data_folder(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    if value is None:
        monkeypatch.delenv("MRS_MODEL_REPO", raising=False)
    else:
        monkeypatch.setenv("MRS_MODEL_REPO", value)
    assert default_root() == Path("/data/mrs/models")
