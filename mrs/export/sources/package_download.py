"""One wheel of the package index: downloaded, and known by its digest."""

from __future__ import annotations

from pathlib import Path

from mrs.errors import DownloadError
from mrs.export.progress import Progress
from mrs.export.sources.package_requirement import (
    PackageRequirement,
    normalize_name,
    normalize_version,
    version_key,
)
from mrs.export.sources.pip_download import download_wheel
from mrs.model_repo.digests import sha256_file
from mrs.model_repo.lock import FileDigest


def download_checked(
    requirement: PackageRequirement, scratch: Path, progress: Progress
) -> tuple[Path, str, FileDigest]:
    """Download the wheel of a pinned package.

    Returns:
        The wheel in ``scratch``, its normalized version, and its name and digest.

    Raises:
        DownloadError: the download failed, or is of another package.
        SourceNotFoundError, StorageError, SourceError: as
            `mrs.export.sources.pip_download.download_wheel`.
    """
    archive = download_wheel(requirement, scratch, progress)
    version = _check_file_name(archive.name, requirement)
    total = archive.stat().st_size
    with progress.phase(f"Check {archive.name}", total=total, unit="bytes") as advance:
        size, sha256 = sha256_file(archive, advance)
    return archive, version, FileDigest(path=archive.name, size=size, sha256=sha256)


def _check_file_name(file_name: str, requirement: PackageRequirement) -> str:
    """The normalized version in a wheel's name, which is of the package that was asked for."""
    name, _, rest = file_name.partition("-")
    version = normalize_version(rest.partition("-")[0])
    is_wanted = normalize_name(name) == requirement.name and (
        version is not None and version_key(version) == version_key(str(requirement.version))
    )
    if not is_wanted or version is None:
        raise DownloadError(f"pip answered with {file_name} when asked for {requirement}.")
    return version
