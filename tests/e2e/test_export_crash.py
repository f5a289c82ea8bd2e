"""Killed, crowded and starved exports: what is listed is whole, and nothing else remains."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.verification import verify
from mrs.model_repo.version import ModelVersion
from tests.e2e.command_process import Commands, Finished, permissions_bind
from tests.export.gguf_files import write_llama

NAME = "smollm2-q8"


def files_in(folder: Path) -> dict[str, int]:
    """Every file's size by its relative path; folders that vanish meanwhile are empty."""
    sizes = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            try:
                sizes[path.relative_to(folder).as_posix()] = path.stat().st_size
            except FileNotFoundError:
                continue
    return sizes


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in files_in(folder)}


def assert_only_whole_versions(commands: Commands, repo: Path) -> list[str]:
    """What `mrs models list` shows can be read and verifies; returns the references."""
    result = commands.mrs("models", "list", "--json", "--repo", repo)
    assert (result.code, result.err) == (0, "")
    assert result.json["broken"] == []
    references = [model["reference"] for model in result.json["models"]]
    repository = ModelRepository(repo)
    for reference in references:
        verify(repository.resolve(reference)).require_ok()
    return references


def left_over(repo: Path) -> list[str]:
    """All files of a repository but those of its versions, and its lock."""
    versions = [version.path.relative_to(repo) for version in ModelRepository(repo).versions()]
    return [
        name
        for name in files_in(repo)
        if name != ".lock"
        and not name.startswith(".measurements/")
        and not any(Path(name).is_relative_to(path) for path in versions)
    ]


# --- killed ---------------------------------------------------------------------------------------

# Each says, from the files of the repository, whether the moment has come. Stages have random
# names, so files are known by how their paths end.
Moment = Callable[[dict[str, int]], bool]


def grown(ending: str, size: int) -> Moment:
    """A file that is written has at least so many bytes."""
    return lambda files: any(
        name.endswith(ending) and here >= size
        for name, here in files.items()
        if name.startswith(".staging/")
    )


def published(files: dict[str, int]) -> bool:
    return any(name.startswith("at-published/") for name in files)


@pytest.fixture(scope="module")
def moments(smollm2_q8: ModelVersion) -> dict[str, Moment]:
    """In the order of an export that nobody disturbs."""
    size = (smollm2_q8.path / "cpu" / "model.onnx.data").stat().st_size
    return {
        "stage": grown(".lock", 0),
        "first-weights": grown("cpu/model.onnx.data", 1),
        "most-weights": grown("cpu/model.onnx.data", size * 2 // 3),
        "graph": grown("cpu/model.onnx", 1),
        "manifest": grown("manifest.json", 1),
        "reference": grown("float32/model.onnx.data", 1),
        "lock": grown("mrs.lock", 0),
        "published": published,
    }


def kill_at(moment: Moment, commands: Commands, repo: Path, *arguments: str | Path) -> None:
    before = files_in(repo)
    (process,) = commands.start([arguments])
    while not commands.are_over(within=0.001):
        new = {name: size for name, size in files_in(repo).items() if name not in before}
        if moment(new):
            os.kill(process, signal.SIGKILL)
            break
    commands.wait()


def test_whatever_moment_an_export_is_killed_only_whole_versions_are_listed(
    commands: Commands, smollm2_gguf: Path, tmp_path: Path, moments: dict[str, Moment]
) -> None:
    repo = tmp_path / "repo"
    options = ("--repo", repo, "--quant", "q8", "--name")
    for name, moment in moments.items():
        parity = ("--parity", "always" if name == "reference" else "never")
        kill_at(moment, commands, repo, "export", smollm2_gguf, *parity, *options, f"at-{name}")
        listed = assert_only_whole_versions(commands, repo)
    assert listed[-1] == "at-published:1"
    assert left_over(repo)

    again = commands.mrs("export", smollm2_gguf, "--parity", "never", *options, "after")
    assert (again.code, again.out) == (0, "after:1\n")
    report = commands.mrs("models", "gc", "--json", "--repo", repo).json
    # A kill may come late on a busy machine, and find that the version is there already.
    # The one with a reference leaves two stages, the published one none.
    assert len(moments) // 2 <= report["stages"] <= len(moments)
    assert report["bytes_freed"] > 0
    assert assert_only_whole_versions(commands, repo) == ["after:1", *listed]
    assert left_over(repo) == []


# --- several at once ------------------------------------------------------------------------------


def export_four_times(commands: Commands, source: Path, repo: Path, *options: str) -> list[str]:
    """Four processes at the same time; returns what each wrote to stdout."""
    command: list[str | Path] = ["export", source, "--repo", repo, "--name", NAME, *options]
    results = commands.at_once([command] * 4)
    assert [result.code for result in results] == [0] * 4, [result.err for result in results]
    return [result.out for result in results]


def test_four_exports_of_one_input_at_once(
    commands: Commands, smollm2_gguf: Path, smollm2_q8: ModelVersion, tmp_path: Path
) -> None:
    """All get the same version, whose bytes are those of any other repository."""
    repo = tmp_path / "repo"
    written = export_four_times(commands, smollm2_gguf, repo, "--quant", "q8", "--parity", "never")
    assert written == [f"{NAME}:1\n"] * 4
    assert assert_only_whole_versions(commands, repo) == [f"{NAME}:1"]
    assert left_over(repo) == []
    assert contents(repo / NAME / "1") == contents(smollm2_q8.path)


def test_four_forced_exports_of_one_input_at_once(commands: Commands, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    written = export_four_times(commands, write_llama(tmp_path / "tiny.gguf"), repo, "--force")
    references = [f"{NAME}:{number}" for number in (1, 2, 3, 4)]
    assert sorted(written) == [f"{reference}\n" for reference in references]
    assert assert_only_whole_versions(commands, repo) == references
    assert left_over(repo) == []
    first, *others = (contents(repo / NAME / str(number)) for number in (1, 2, 3, 4))
    assert all(other == first for other in others)


# --- no room, no permission -----------------------------------------------------------------------


def assert_nothing_written(commands: Commands, result: Finished, repo: Path, *words: str) -> None:
    assert result.code == 6, result.err
    assert "error[storage_error]: " in result.err
    assert all(word in result.err for word in words)
    assert "Traceback" not in result.err
    assert result.out == ""
    assert assert_only_whole_versions(commands, repo) == []
    assert left_over(repo) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 40 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("mounting is not permitted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk(commands: Commands, smollm2_gguf: Path, small_disk: Path) -> None:
    repo = small_disk / "repo"
    result = commands.mrs("export", smollm2_gguf, "--repo", repo)
    assert_nothing_written(commands, result, repo, "No space left on device", "--repo")


def test_a_disk_that_fills_up_spares_the_versions_that_are_there(
    commands: Commands, smollm2_gguf: Path, small_disk: Path, tmp_path: Path
) -> None:
    repo = small_disk / "repo"
    tiny = write_llama(tmp_path / "tiny.gguf")
    assert commands.mrs("export", tiny, "--repo", repo).code == 0
    assert commands.mrs("export", smollm2_gguf, "--repo", repo).code == 6
    assert assert_only_whole_versions(commands, repo) == ["tiny:1"]
    assert left_over(repo) == []


def test_a_limit_on_the_size_of_files(
    commands: Commands, smollm2_gguf: Path, tmp_path: Path
) -> None:
    repo = tmp_path / "repo"
    result = commands.mrs("export", smollm2_gguf, "--repo", repo, largest_file=20_000_000)
    assert_nothing_written(commands, result, repo, "File too large", "--repo")


@pytest.mark.skipif(not permissions_bind(), reason="root may write everywhere")
def test_a_read_only_repository(commands: Commands, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    tiny = write_llama(tmp_path / "tiny.gguf")
    assert commands.mrs("export", tiny, "--repo", repo, "--name", "first").code == 0
    before = contents(repo)
    folders = [repo, *(path for path in repo.rglob("*") if path.is_dir())]
    try:
        for folder in folders:
            folder.chmod(0o555)
        result = commands.mrs("export", tiny, "--repo", repo, "--name", "second")
        assert result.code == 6, result.err
        assert "error[storage_error]: " in result.err
        assert "Permission denied" in result.err
        assert result.out == ""
        assert assert_only_whole_versions(commands, repo) == ["first:1"]
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert contents(repo) == before
