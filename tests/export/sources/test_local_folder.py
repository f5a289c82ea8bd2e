from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from mrs.errors import CheckpointError, MrsError, SourceNotFoundError, UsageError
from mrs.export.progress import SilentProgress
from mrs.export.sources.local_folder import resolve_local_folder
from mrs.export.sources.source import ResolvedSource
from tests.export.sources.folders import NOT_READ, READ, SHARDED, write_folder
from tests.export.sources.recording import RecordingProgress


def resolve(folder: Path) -> ResolvedSource:
    return resolve_local_folder(folder, SilentProgress())


def refusal(folder: Path) -> MrsError:
    with pytest.raises(MrsError) as caught:
        resolve(folder)
    return caught.value


def test_a_folder_is_named_and_what_is_read_is_digested(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "Tiny-1B-Instruct", {**READ, **NOT_READ})
    source = resolve(folder)
    assert source.path == folder
    assert source.model_name == "tiny-1b-instruct"
    assert source.record.kind == "folder"
    assert source.record.identifier == "Tiny-1B-Instruct"
    assert {file.path: file.sha256 for file in source.record.files} == {
        name: hashlib.sha256(data).hexdigest() for name, data in READ.items()
    }
    assert [file.path for file in source.record.files] == sorted(READ)


def test_shards_and_their_index_are_read(tmp_path: Path) -> None:
    source = resolve(write_folder(tmp_path, SHARDED))
    assert [file.path for file in source.record.files] == sorted(SHARDED)


def test_the_record_does_not_depend_on_the_place_of_the_folder(tmp_path: Path) -> None:
    first = resolve(write_folder(tmp_path / "a" / "model", READ))
    second = resolve(write_folder(tmp_path / "b" / "model", READ))
    assert first.record == second.record


def test_hashing_is_one_phase_in_bytes(tmp_path: Path) -> None:
    progress = RecordingProgress()
    resolve_local_folder(write_folder(tmp_path, READ), progress)
    (phase,) = progress.phases
    size = sum(len(data) for data in READ.values())
    assert (phase.total, phase.unit, phase.done) == (size, "bytes", size)


def test_the_current_folder_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write_folder(tmp_path / "tiny", READ))
    source = resolve(Path())
    assert (source.record.identifier, source.model_name) == ("tiny", "tiny")


def test_a_folder_of_the_hubs_cache_has_the_name_of_its_model(tmp_path: Path) -> None:
    cache = tmp_path / "models--Some-Org--Tiny-1B"
    folder = write_folder(cache / "snapshots" / ("0a" * 20), READ)
    blob = cache / "blobs" / "1234"
    blob.parent.mkdir()
    shutil.move(folder / "model.safetensors", blob)
    (folder / "model.safetensors").symlink_to(blob)
    source = resolve(folder)
    assert source.model_name == "tiny-1b"
    assert "model.safetensors" in [file.path for file in source.record.files]


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "last.ckpt"])
def test_pickles_are_refused_with_the_way_out(tmp_path: Path, name: str) -> None:
    write_folder(tmp_path, {"config.json": b"{}", name: b"\x80\x02"})
    error = refusal(tmp_path)
    assert isinstance(error, CheckpointError)
    assert f"a pickle ({name})" in str(error)
    assert "safetensors" in error.hint


def test_pickles_beside_safetensors_are_passed_over(tmp_path: Path) -> None:
    write_folder(tmp_path, {**READ, "pytorch_model.bin": b"\x80\x02"})
    assert "pytorch_model.bin" not in [file.path for file in resolve(tmp_path).record.files]


def test_a_folder_of_gguf_files_lists_them(tmp_path: Path) -> None:
    write_folder(
        tmp_path,
        {
            "config.json": b"{}",
            "b-00001-of-00002.gguf": b"",
            "b-00002-of-00002.gguf": b"",
            "a.gguf": b"",
            "mmproj-f16.gguf": b"",
        },
    )
    error = refusal(tmp_path)
    assert isinstance(error, UsageError)
    assert error.hint == f"Name the file: {tmp_path / 'a.gguf'}, {tmp_path}/b-00001-of-00002.gguf"


def test_an_adapter_is_no_model(tmp_path: Path) -> None:
    write_folder(tmp_path, {"adapter_config.json": b"{}", "adapter_model.safetensors": b""})
    assert "adapter" in str(refusal(tmp_path))


def test_a_model_in_its_makers_format_is_told(tmp_path: Path) -> None:
    write_folder(tmp_path, {"params.json": b"{}", "consolidated.safetensors": b""})
    assert "params.json" in str(refusal(tmp_path))


@pytest.mark.parametrize(
    ("files", "missing"),
    [({}, "config.json"), ({"config.json": b"{}"}, ".safetensors file")],
)
def test_what_is_missing_is_named(tmp_path: Path, files: dict[str, bytes], missing: str) -> None:
    write_folder(tmp_path, files)
    error = refusal(tmp_path)
    assert isinstance(error, SourceNotFoundError)
    assert f"There is no {missing} in {tmp_path}" in str(error)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    write_folder(tmp_path, SHARDED)
    (tmp_path / "model-00001-of-00002.safetensors").unlink()
    assert "model-00001-of-00002.safetensors" in str(refusal(tmp_path))


def test_a_link_to_nowhere_is_a_missing_shard(tmp_path: Path) -> None:
    write_folder(tmp_path, SHARDED)
    (tmp_path / "model-00001-of-00002.safetensors").unlink()
    (tmp_path / "model-00001-of-00002.safetensors").symlink_to(tmp_path / "nowhere")
    assert isinstance(refusal(tmp_path), SourceNotFoundError)


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    assert "not UTF-8" in str(refusal(write_folder(folder, READ)))
