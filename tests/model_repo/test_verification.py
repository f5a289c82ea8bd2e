from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from mrs.errors import CorruptVersionError
from mrs.model_repo.lock_file import read_lock, write_lock
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.verification import ProblemKind, VerificationReport, verify
from mrs.model_repo.version import ModelVersion
from tests.model_repo.samples import make_lock, publish

GRAPH = "cpu/model.onnx"


@pytest.fixture
def version(repository: ModelRepository) -> ModelVersion:
    return publish(repository)


def kinds(report: VerificationReport) -> list[tuple[str, str]]:
    return [(problem.path, problem.kind.value) for problem in report.problems]


def test_a_fresh_version_is_sound(version: ModelVersion) -> None:
    report = verify(version)
    assert report.ok
    assert report.files == 4
    assert report.size == sum(
        path.stat().st_size
        for path in version.path.rglob("*")
        if path.is_file() and path.name != "mrs.lock"
    )


def test_progress_counts_every_byte_once(version: ModelVersion) -> None:
    steps: list[int] = []
    report = verify(version, on_bytes=steps.append)
    assert sum(steps) == report.size


def test_one_changed_bit_is_found_by_the_full_check_alone(version: ModelVersion) -> None:
    content = bytearray(version.graph_path.read_bytes())
    content[0] ^= 1
    version.graph_path.write_bytes(content)
    assert kinds(verify(version)) == [(GRAPH, "digest")]
    assert verify(version, full=False).ok


@pytest.mark.parametrize("full", [True, False])
def test_a_truncated_file_is_found(version: ModelVersion, full: bool) -> None:
    os.truncate(version.graph_path, 1)
    assert kinds(verify(version, full=full)) == [(GRAPH, "size")]


@pytest.mark.parametrize("full", [True, False])
def test_a_missing_folder_is_found_file_by_file(version: ModelVersion, full: bool) -> None:
    shutil.rmtree(version.path / "cpu")
    expected = [(GRAPH, "missing"), (GRAPH + ".data", "missing")]
    assert kinds(verify(version, full=full)) == expected


@pytest.mark.parametrize("full", [True, False])
def test_an_extra_file_is_found(version: ModelVersion, full: bool) -> None:
    (version.path / "cpu" / "custom_op.so").write_bytes(b"")
    assert kinds(verify(version, full=full)) == [("cpu/custom_op.so", "extra")]


def test_a_link_to_the_very_same_bytes_is_refused(version: ModelVersion, tmp_path: Path) -> None:
    version.graph_path.rename(tmp_path / "elsewhere")
    version.graph_path.symlink_to(tmp_path / "elsewhere")
    assert kinds(verify(version)) == [(GRAPH, "symlink")]


def test_a_link_in_place_of_a_folder_is_refused(version: ModelVersion, tmp_path: Path) -> None:
    (version.path / "cpu").rename(tmp_path / "cpu")
    (version.path / "cpu").symlink_to(tmp_path / "cpu")
    assert {problem.kind for problem in verify(version).problems} == {ProblemKind.SYMLINK}


def test_an_extra_link_is_refused(version: ModelVersion) -> None:
    (version.path / "link").symlink_to("/")
    assert kinds(verify(version)) == [("link", "symlink")]


def test_a_pipe_in_place_of_a_file_is_refused_without_waiting(version: ModelVersion) -> None:
    version.tokenizer_path.unlink()
    os.mkfifo(version.tokenizer_path)
    assert kinds(verify(version)) == [("tokenizer.json", "not_a_file")]


def test_a_manifest_that_names_an_unknown_graph_is_found(version: ModelVersion) -> None:
    manifest = version.path / "manifest.json"
    manifest.write_text(manifest.read_text().replace("model.onnx", "other.onnx"))
    write_lock(version.path, make_lock(version.path))
    changed = ModelVersion("tiny", 1, version.path, read_lock(version.path))
    (problem,) = verify(changed).problems
    assert problem.kind is ProblemKind.MANIFEST
    assert "cpu/other.onnx" in problem.detail


def test_inputs_that_do_not_match_their_digest_are_found(version: ModelVersion) -> None:
    forged = version.lock.model_copy(update={"input_digest": "0" * 64})
    report = verify(ModelVersion("tiny", 1, version.path, forged), full=False)
    assert kinds(report) == [("mrs.lock", "lock")]


def test_a_damaged_version_is_an_error_where_a_sound_one_is_required(
    version: ModelVersion,
) -> None:
    verify(version).require_ok()
    version.graph_path.unlink()
    version.tokenizer_path.unlink()
    with pytest.raises(CorruptVersionError) as caught:
        verify(version).require_ok()
    assert caught.value.message == (
        "tiny:1 is damaged: cpu/model.onnx is missing. (1 more problem)"
    )
