from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from mrs.errors import CorruptVersionError
from mrs.model_repo.lock import EmbeddingFacts, ModelFacts, ModelLock, ParityRecord
from mrs.model_repo.lock_file import artifact_digest, input_digest, read_lock, write_lock
from tests.model_repo.samples import make_inputs, make_lock, write_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a version with its lock."""
    folder = tmp_path / "version"
    write_files(folder)
    write_lock(folder, make_lock(folder))
    return folder


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "mrs.lock"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_lock_survives_being_written_and_read(folder: Path) -> None:
    assert read_lock(folder) == make_lock(folder)


def test_the_bytes_of_a_lock_depend_on_its_value_alone(folder: Path) -> None:
    first = (folder / "mrs.lock").read_bytes()
    write_lock(folder, read_lock(folder))
    assert (folder / "mrs.lock").read_bytes() == first


def test_the_input_digest_tells_inputs_apart() -> None:
    assert input_digest(make_inputs()) == input_digest(make_inputs())
    assert input_digest(make_inputs("q8")) != input_digest(make_inputs("fp32"))


@pytest.mark.parametrize("path", ["../out", "/etc/passwd", "a/../../b", "a\\b", "mrs.lock", ""])
def test_a_path_that_no_version_may_hold_is_refused(folder: Path, path: str) -> None:
    edit(folder, files=[{"path": path, "size": 1, "sha256": "0" * 64}])
    with pytest.raises(CorruptVersionError, match="no version may hold"):
        read_lock(folder)


def test_a_file_named_twice_is_refused(folder: Path) -> None:
    edit(folder, files=[{"path": "a", "size": 1, "sha256": "0" * 64}] * 2)
    with pytest.raises(CorruptVersionError, match="twice"):
        read_lock(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"schema_version": 2},
        {"schema_version": "1"},
        {"unknown": 1},
        {"input_digest": "xyz"},
        {"files": [{"path": "a", "size": -1, "sha256": "0" * 64}]},
        {"files": [{"path": "a", "size": 1.5, "sha256": "0" * 64}]},
        {"files": None},
        {"model": {}},
    ],
)
def test_a_lock_that_breaks_the_schema_is_refused(folder: Path, changes: dict[str, Any]) -> None:
    edit(folder, **changes)
    with pytest.raises(CorruptVersionError, match="malformed at"):
        read_lock(folder)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b"null", b"[" * 100_000])
def test_a_lock_that_is_no_json_object_is_refused(folder: Path, text: bytes) -> None:
    (folder / "mrs.lock").write_bytes(text)
    with pytest.raises(CorruptVersionError, match=r"mrs\.lock is malformed"):
        read_lock(folder)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(cut=st.integers(0, 1500), byte=st.integers(0, 255))
def test_a_lock_with_one_byte_changed_is_read_or_refused(folder: Path, cut: int, byte: int) -> None:
    text = bytearray((folder / "mrs.lock").read_bytes())
    text[cut % len(text)] = byte
    changed = folder.parent / "changed"
    changed.mkdir(exist_ok=True)
    (changed / "mrs.lock").write_bytes(text)
    try:
        read_lock(changed)
    except CorruptVersionError as error:
        assert "changed/mrs.lock" in error.message


def test_a_missing_lock_says_that_this_is_no_version(tmp_path: Path) -> None:
    with pytest.raises(CorruptVersionError, match="is not a model version"):
        read_lock(tmp_path)


def test_a_lock_that_is_a_link_is_refused(folder: Path) -> None:
    (folder / "mrs.lock").rename(folder / "real")
    (folder / "mrs.lock").symlink_to("real")
    with pytest.raises(CorruptVersionError, match="is a symbolic link"):
        read_lock(folder)


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_a_lock_that_is_no_file_is_refused(folder: Path, kind: str) -> None:
    path = folder / "mrs.lock"
    path.unlink()
    os.mkfifo(path) if kind == "pipe" else path.mkdir()
    with pytest.raises(CorruptVersionError, match="Not a regular file"):
        read_lock(folder)


def test_a_lock_beyond_all_bounds_is_refused(folder: Path) -> None:
    with (folder / "mrs.lock").open("r+b") as file:
        file.truncate((64 << 20) + 1)  # Sparse: it takes no disk.
    with pytest.raises(CorruptVersionError, match="Longer than"):
        read_lock(folder)


def test_the_facts_of_an_embedding_model_belong_to_its_kind(tmp_path: Path) -> None:
    write_files(tmp_path)
    facts = make_lock(tmp_path).model.model_dump()
    embedding = EmbeddingFacts(size=8, pooling="mean", normalized=True, max_length=64)
    kinds: list[tuple[str, EmbeddingFacts | None]] = [("embedding", None), ("decoder", embedding)]
    for kind, found in kinds:
        with pytest.raises(ValidationError, match=kind):
            ModelFacts.model_validate({**facts, "kind": kind, "embedding": found})
    whole = ModelFacts.model_validate({**facts, "kind": "embedding", "embedding": embedding})
    assert ModelFacts.model_validate_json(whole.model_dump_json(), strict=True) == whole


def test_a_lock_that_names_no_kind_is_that_of_a_generator(tmp_path: Path) -> None:
    write_files(tmp_path)
    facts = make_lock(tmp_path).model.model_dump(exclude={"kind", "embedding"})
    assert ModelFacts.model_validate(facts).kind == "decoder"


# --- what identifies an artifact ------------------------------------------------------------------

PARITY = ParityRecord(
    text_sha256="a" * 64,
    tokens=10,
    mean_kl=0.1,
    max_kl=1.0,
    top1=90.0,
    perplexity=20.0,
    reference_perplexity=19.0,
)


def test_parity_survives_being_written_and_read(folder: Path) -> None:
    lock = read_lock(folder).model_copy(update={"parity": PARITY})
    write_lock(folder, lock)
    assert read_lock(folder) == lock


def test_what_was_measured_does_not_identify_an_artifact(folder: Path) -> None:
    lock = read_lock(folder)
    measured = lock.model_copy(update={"parity": PARITY})
    assert artifact_digest(measured) == artifact_digest(lock)


@pytest.mark.parametrize("part", ["input_digest", "inputs", "model", "quantization", "files"])
def test_all_else_does(folder: Path, part: str) -> None:
    lock = read_lock(folder)
    other = {
        "input_digest": "0" * 64,
        "inputs": make_inputs("fp32"),
        "model": lock.model.model_copy(update={"vocab_size": 7}),
        "quantization": {},
        "files": lock.files[1:],
    }[part]
    changed = lock.model_copy(update={part: other})
    assert artifact_digest(changed) != artifact_digest(lock)


def test_fields_that_came_later_do_not_change_the_digest(folder: Path) -> None:
    """A lock of an older mrs lacks them; read again, they have their defaults."""
    lock = read_lock(folder)
    written = json.loads((folder / "mrs.lock").read_text())
    for later in ("chat_template", "embedding", "kind"):
        del written["model"][later]
    del written["parity"]
    older = ModelLock.model_validate_json(json.dumps(written), strict=True)
    assert artifact_digest(older) == artifact_digest(lock)
