from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from huggingface_hub import constants

from mrs.errors import (
    CheckpointError,
    DownloadError,
    MrsError,
    SourceNotFoundError,
    StorageError,
    UsageError,
)
from mrs.export.progress import Progress, SilentProgress
from mrs.export.sources.hub import resolve_hub
from mrs.export.sources.hub_reference import parse_hub_reference
from mrs.export.sources.source import ResolvedSource
from tests.export.sources.conftest import use_hub
from tests.export.sources.fake_hub import COMMIT, FakeHub
from tests.export.sources.folders import NOT_READ, READ, SHARDED
from tests.export.sources.recording import RecordingProgress


def resolve(source: str = "org/Tiny-1B", progress: Progress | None = None) -> ResolvedSource:
    return resolve_hub(parse_hub_reference(source), progress or SilentProgress())


def refusal(source: str = "org/Tiny-1B") -> MrsError:
    with pytest.raises(MrsError) as caught:
        resolve(source)
    assert "127.0.0.1" not in str(caught.value)
    return caught.value


@pytest.fixture
def tiny(hub: FakeHub) -> FakeHub:
    """A Hub with one model in safetensors."""
    hub.repositories["org/Tiny-1B"] = {**READ, **NOT_READ}
    return hub


@pytest.fixture
def ggufs(hub: FakeHub) -> FakeHub:
    """A Hub with a repository of GGUF files."""
    hub.repositories["org/Tiny-GGUF"] = {
        "config.json": b"{}",
        "Tiny-Q4_0.gguf": b"GGUF q4",
        "big/Tiny-F16-00001-of-00002.gguf": b"GGUF 1",
        "big/Tiny-F16-00002-of-00002.gguf": b"GGUF 2",
        "mmproj-F16.gguf": b"GGUF eyes",
    }
    return hub


# --- what is fetched ------------------------------------------------------------------------------


def test_a_repository_is_a_folder_of_the_files_that_are_read(tiny: FakeHub) -> None:
    source = resolve()
    assert source.model_name == "tiny-1b"
    assert source.record.kind == "hub"
    assert source.record.identifier == f"org/Tiny-1B@{COMMIT}"
    assert {file.path: file.sha256 for file in source.record.files} == {
        name: hashlib.sha256(data).hexdigest() for name, data in READ.items()
    }
    assert {name: (source.path / name).read_bytes() for name in READ} == READ
    assert sorted(tiny.fetched()) == sorted(READ)


def test_the_weights_come_last(tiny: FakeHub) -> None:
    resolve()
    assert tiny.fetched()[-1] == "model.safetensors"


def test_shards_are_fetched_with_their_index(hub: FakeHub) -> None:
    hub.repositories["org/Tiny-1B"] = SHARDED
    source = resolve()
    assert [file.path for file in source.record.files] == sorted(SHARDED)
    assert sorted(hub.fetched()) == sorted(SHARDED)


def test_a_second_time_nothing_is_fetched(tiny: FakeHub) -> None:
    first = resolve()
    tiny.requests.clear()
    assert resolve() == first
    assert tiny.fetched() == []


def test_a_revision_is_resolved_to_its_commit(tiny: FakeHub) -> None:
    tiny.commits["v1.0"] = COMMIT
    tiny.commits["main"] = "f" * 40
    assert resolve("org/Tiny-1B@v1.0").record.identifier == f"org/Tiny-1B@{COMMIT}"
    assert resolve("org/Tiny-1B").record.identifier == "org/Tiny-1B@" + "f" * 40


def test_a_branch_that_moves_meanwhile_gives_the_commit_that_was_looked_up(
    tiny: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mrs.export.sources import hub as module

    def look_up(*args: object) -> object:
        listing = original(*args)  # type: ignore[arg-type]
        tiny.commits["main"] = "e" * 40
        return listing

    original = module.list_repository
    monkeypatch.setattr(module, "list_repository", look_up)
    source = resolve()
    assert source.record.identifier == f"org/Tiny-1B@{COMMIT}"
    assert source.path.name == COMMIT


def test_progress_is_in_bytes(tiny: FakeHub) -> None:
    progress = RecordingProgress()
    resolve(progress=progress)
    downloads = {
        phase.label: (phase.total, phase.done)
        for phase in progress.phases
        if phase.label.startswith("Download ")
    }
    assert downloads == {f"Download {name}": (len(d), len(d)) for name, d in READ.items()}


# --- GGUF -----------------------------------------------------------------------------------------


def test_one_gguf_file_is_fetched_alone(ggufs: FakeHub) -> None:
    source = resolve("org/Tiny-GGUF:Tiny-Q4_0.gguf")
    assert source.path.read_bytes() == b"GGUF q4"
    assert source.model_name == "tiny"
    assert source.record.identifier == f"org/Tiny-GGUF@{COMMIT}:Tiny-Q4_0.gguf"
    assert [file.path for file in source.record.files] == ["Tiny-Q4_0.gguf"]
    assert ggufs.fetched() == ["Tiny-Q4_0.gguf"]


@pytest.mark.parametrize(
    "file",
    [
        "big/Tiny-F16-00001-of-00002.gguf",
        "big/Tiny-F16-00002-of-00002.gguf",
        "Tiny-F16-00002-of-00002.gguf",
    ],
)
def test_a_split_file_is_fetched_with_its_other_parts(ggufs: FakeHub, file: str) -> None:
    source = resolve(f"org/Tiny-GGUF@main:{file}")
    assert source.path.read_bytes() == b"GGUF 1"
    assert source.path.name == "Tiny-F16-00001-of-00002.gguf"
    assert (source.path.parent / "Tiny-F16-00002-of-00002.gguf").read_bytes() == b"GGUF 2"
    assert len(source.record.files) == 2
    assert source.model_name == "tiny"


def test_without_a_file_the_choices_are_listed(ggufs: FakeHub) -> None:
    error = refusal("org/Tiny-GGUF")
    assert isinstance(error, UsageError)
    assert error.hint == (
        "Choose one: org/Tiny-GGUF:Tiny-Q4_0.gguf, org/Tiny-GGUF:big/Tiny-F16-00001-of-00002.gguf"
    )


def test_the_only_gguf_model_needs_no_name(hub: FakeHub) -> None:
    hub.repositories["org/one"] = {"m.gguf": b"GGUF", "mmproj-m.gguf": b"GGUF"}
    assert resolve("org/one").path.name == "m.gguf"


def test_a_missing_gguf_file_lists_what_is_there(ggufs: FakeHub) -> None:
    error = refusal("org/Tiny-GGUF:other.gguf")
    assert isinstance(error, SourceNotFoundError)
    assert "org/Tiny-GGUF:Tiny-Q4_0.gguf" in error.hint


def test_a_missing_part_is_named(ggufs: FakeHub) -> None:
    del ggufs.repositories["org/Tiny-GGUF"]["big/Tiny-F16-00002-of-00002.gguf"]
    error = refusal("org/Tiny-GGUF:Tiny-F16-00001-of-00002.gguf")
    assert "big/Tiny-F16-00002-of-00002.gguf" in str(error)


# --- offline --------------------------------------------------------------------------------------


def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def test_offline_the_cache_gives_the_same(tiny: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    online = resolve()
    tiny.requests.clear()
    offline(monkeypatch)
    assert resolve() == online
    assert resolve(f"org/Tiny-1B@{COMMIT}") == online
    assert tiny.requests == []


def test_offline_a_gguf_file_comes_out_of_the_cache(
    ggufs: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    online = resolve("org/Tiny-GGUF:Tiny-F16-00001-of-00002.gguf")
    offline(monkeypatch)
    assert resolve("org/Tiny-GGUF:Tiny-F16-00001-of-00002.gguf") == online


def test_offline_without_a_cache_says_so(tiny: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    offline(monkeypatch)
    error = refusal()
    assert isinstance(error, DownloadError)
    assert "HF_HUB_OFFLINE" in str(error)
    assert tiny.requests == []


def test_offline_with_a_part_of_a_model_says_what_is_missing(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repositories["org/Tiny-1B"] = SHARDED
    shard = resolve().path / "model-00002-of-00002.safetensors"
    shard.unlink()
    offline(monkeypatch)
    assert "model-00002-of-00002.safetensors" in str(refusal())


# --- failures -------------------------------------------------------------------------------------


def test_a_missing_repository_is_not_found(hub: FakeHub) -> None:
    error = refusal("org/nothing")
    assert isinstance(error, SourceNotFoundError)
    assert "no folder org/nothing here, and no repository org/nothing on the Hub" in str(error)
    assert "HF_TOKEN" in error.hint


def test_a_missing_revision_is_named(tiny: FakeHub) -> None:
    error = refusal("org/Tiny-1B@v9")
    assert isinstance(error, SourceNotFoundError)
    assert "has no revision 'v9'" in str(error)


def test_a_gated_repository_says_how_to_get_in(
    tiny: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny.gated.add("org/Tiny-1B")
    error = refusal()
    assert isinstance(error, DownloadError)
    assert "gated" in str(error)
    assert "HF_TOKEN" in error.hint
    monkeypatch.setenv("HF_TOKEN", "hf_good")
    assert resolve().model_name == "tiny-1b"


@pytest.mark.parametrize(("status", "words"), [(401, "token"), (403, "denies"), (429, "429")])
def test_other_refusals_are_told(tiny: FakeHub, status: int, words: str) -> None:
    tiny.status = status
    assert words in str(refusal()) + refusal().hint


def test_an_unreachable_hub_is_a_failed_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_hub(monkeypatch, "http://127.0.0.1:9", tmp_path)
    error = refusal()
    assert isinstance(error, DownloadError)
    assert "could not be reached" in str(error)
    assert "HF_ENDPOINT" in error.hint


def test_an_unreachable_hub_points_to_the_cache(
    tiny: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve()
    use_hub(monkeypatch, "http://127.0.0.1:9", tmp_path / "hub")
    assert f"The cache holds commit {COMMIT}; set HF_HUB_OFFLINE=1" in refusal().hint


def test_bytes_that_are_not_what_the_hub_states_are_refused(tiny: FakeHub) -> None:
    tiny.lies["model.safetensors"] = "ab" * 32
    error = refusal()
    assert isinstance(error, DownloadError)
    assert "model.safetensors" in str(error)
    assert error.hint.startswith("Delete ")


def test_a_damaged_cache_is_noticed_offline(tiny: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = (resolve().path / "model.safetensors").resolve()
    blob.chmod(0o644)
    blob.write_bytes(b"damaged")
    offline(monkeypatch)
    assert "does not match the digest" in str(refusal())


def test_pickles_are_refused_before_anything_is_fetched(hub: FakeHub) -> None:
    hub.repositories["org/old"] = {"config.json": b"{}", "pytorch_model.bin": b"\x80\x02"}
    error = refusal("org/old")
    assert isinstance(error, CheckpointError)
    assert "pickle (pytorch_model.bin)" in str(error)
    assert "safetensors" in error.hint
    assert hub.fetched() == []


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "holds no model"),
        ({"config.json": b"{}", "README.md": b""}, "holds no model"),
        ({"adapter_config.json": b"{}", "adapter_model.safetensors": b""}, "adapter"),
    ],
)
def test_a_repository_without_a_model_is_refused(
    hub: FakeHub, files: dict[str, bytes], words: str
) -> None:
    hub.repositories["org/none"] = files
    assert words in str(refusal("org/none"))


def test_names_that_leave_their_folder_are_passed_over(hub: FakeHub) -> None:
    hub.repositories["org/evil"] = {"../../m.gguf": b"GGUF", "/m.gguf": b"GGUF"}
    assert "holds no model" in str(refusal("org/evil"))
    assert hub.fetched() == []


def test_a_cache_that_cannot_be_written_is_a_storage_error(
    tiny: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "file" / "cache"))
    error = refusal()
    assert isinstance(error, StorageError)
    assert "HF_HUB_CACHE" in error.hint
