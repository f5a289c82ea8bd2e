"""A model in a repository of the Hub."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from mrs.errors import DownloadError, MrsError, SourceNotFoundError, UsageError
from mrs.export.checkpoints.gguf_split import part_names
from mrs.export.checkpoints.hf_config import CONFIG_FILE
from mrs.export.checkpoints.safetensors_shards import INDEX_FILE, read_index
from mrs.export.progress import Progress
from mrs.export.sources.file_digests import digest_files
from mrs.export.sources.hub_client import (
    HubListing,
    cached_file,
    download_file,
    is_offline,
    list_cache,
    list_repository,
)
from mrs.export.sources.hub_reference import HubReference
from mrs.export.sources.model_files import gguf_models, read_files, refuse_pickles
from mrs.export.sources.naming import model_name_from_file
from mrs.export.sources.source import ResolvedSource
from mrs.model_repo.lock import FileDigest, SourceRecord

_MOST_CHOICES = 40
_SHA256 = re.compile(r"[0-9a-f]{64}")


def resolve_hub(reference: HubReference, progress: Progress) -> ResolvedSource:
    """Get a model from the Hub, or offline from its cache; only files that are read are fetched.

    The revision is resolved to its commit, which the record names. Large files are compared with
    the digests that the Hub states.

    Raises:
        SourceNotFoundError: no such repository, revision or file, or nothing to export in it.
        UsageError: it holds several GGUF models, and none was named.
        CheckpointError: its weights are pickles, or no whole model.
        DownloadError: the repository is gated, the Hub cannot be reached, a file is not what it
            states; or offline, and the cache lacks the model.
        StorageError: the cache cannot be written.
    """
    listing = _listing(reference, progress)
    fetch = _Fetcher(reference, listing, progress)
    names = list(listing.sizes)
    if reference.file is not None:
        return _gguf(_find_file(reference, names), fetch)
    if CONFIG_FILE in names and any(name.endswith(".safetensors") for name in names):
        return _folder(fetch)
    models = gguf_models(names)
    if len(models) == 1:
        return _gguf(models[0], fetch)
    raise _nothing_to_export(reference, names, models)


class _Fetcher:
    """Gets files of one commit, once each."""

    def __init__(self, reference: HubReference, listing: HubListing, progress: Progress) -> None:
        self.reference = reference
        self.listing = listing
        self.progress = progress
        self._revision = reference.revision

    def __call__(self, name: str) -> Path:
        """The path of a file in the cache, which is fetched if need be."""
        if self.listing.folder is not None:
            return self.listing.folder / name
        commit = self.listing.commit
        if self._revision != commit:
            # The first file comes by the user's revision, which the cache then knows offline.
            path = self._download(name)
            self._revision = commit
            if commit in path.parts:
                return path
            # The branch has moved on since it was looked up.
        return cached_file(self.reference, commit, name) or self._download(name)

    def _download(self, name: str) -> Path:
        return download_file(self.reference, self._revision, name, self.listing, self.progress)

    def record(self, paths: dict[str, Path], kind_of: str) -> SourceRecord:
        """Digest what was fetched."""
        digests = digest_files(paths, self.reference.repository, self.progress)
        for digest in digests:
            self._check(digest, paths[digest.path])
        identifier = f"{self.reference.repository}@{self.listing.commit}{kind_of}"
        return SourceRecord(kind="hub", identifier=identifier, files=digests)

    def _check(self, digest: FileDigest, path: Path) -> None:
        """The Hub states the digest of a large file, and the cache names its copy after it."""
        stored = path.resolve()
        wanted = self.listing.sha256.get(digest.path, stored.name)
        if _SHA256.fullmatch(wanted) and wanted != digest.sha256:
            raise DownloadError(
                f"{digest.path} of {self.reference} does not match the digest that the Hub states.",
                hint=f"Delete {stored} and try again.",
            )


def _listing(reference: HubReference, progress: Progress) -> HubListing:
    if is_offline():
        cached = list_cache(reference)
        if cached is None:
            raise DownloadError(
                f"There is no folder {reference.repository} here, {reference} is not in the Hub's "
                "cache, and HF_HUB_OFFLINE forbids the network.",
                hint="Unset HF_HUB_OFFLINE once to fetch it, or name a folder.",
            )
        return cached
    try:
        return list_repository(reference, progress)
    except SourceNotFoundError:
        raise
    except DownloadError as error:
        if cached := list_cache(reference):
            error.hint += (
                f" The cache holds commit {cached.commit}; set HF_HUB_OFFLINE=1 to use that."
            )
        raise


def _folder(fetch: _Fetcher) -> ResolvedSource:
    reference, names = fetch.reference, list(fetch.listing.sizes)
    chosen = read_files(names, lambda: read_index(fetch(INDEX_FILE)), str(reference))
    # The weights come last: a folder that has them is whole.
    ordered = sorted(chosen, key=lambda name: (name.endswith(".safetensors"), name))
    paths = {name: fetch(name) for name in ordered}
    record = fetch.record(paths, "")
    name = reference.repository.partition("/")[2]
    return ResolvedSource(record, paths[CONFIG_FILE].parent, model_name_from_file(name))


def _gguf(name: str, fetch: _Fetcher) -> ResolvedSource:
    path = PurePosixPath(name)
    parts = [str(path.with_name(part)) for part in part_names(path.name)]
    missing = [part for part in parts if part not in fetch.listing.sizes]
    if missing:
        raise _missing_part(fetch, missing, len(parts))
    paths = {part: fetch(part) for part in parts}
    record = fetch.record(paths, f":{parts[0]}")
    return ResolvedSource(record, paths[parts[0]], model_name_from_file(Path(parts[0]).name))


def _missing_part(fetch: _Fetcher, missing: list[str], count: int) -> MrsError:
    error = SourceNotFoundError(
        f"{len(missing)} of the {count} parts of the model in {fetch.reference} are missing: "
        f"{missing[0]}{', ...' if len(missing) > 1 else ''}."
    )
    if fetch.listing.folder is not None:
        error.hint = "Unset HF_HUB_OFFLINE once to fetch it."
    return error


def _find_file(reference: HubReference, names: list[str]) -> str:
    """The path in the repository of the file that was named by path or base name."""
    ggufs = [name for name in names if name.lower().endswith(".gguf")]
    if reference.file in ggufs:
        return str(reference.file)
    found = [name for name in ggufs if PurePosixPath(name).name == reference.file]
    if len(found) == 1:
        return found[0]
    plain = HubReference(reference.repository, reference.revision)
    if found:
        raise UsageError(
            f"{plain} holds {len(found)} files named {reference.file}.",
            hint="Choose one: " + _choices(plain, found),
        )
    models = gguf_models(names)
    hint = "It holds " + _choices(plain, models) if models else "It holds no .gguf file."
    if is_offline():
        hint = "Unset HF_HUB_OFFLINE once to fetch it."
    raise SourceNotFoundError(f"There is no {reference.file} in {plain}.", hint=hint)


def _choices(reference: HubReference, models: list[str]) -> str:
    shown = ", ".join(f"{reference}:{model}" for model in models[:_MOST_CHOICES])
    return shown + (", ..." if len(models) > _MOST_CHOICES else "")


def _nothing_to_export(reference: HubReference, names: list[str], models: list[str]) -> MrsError:
    if models:
        return UsageError(
            f"{reference} holds {len(models)} GGUF models, of which one has to be named.",
            hint="Choose one: " + _choices(reference, models),
        )
    try:
        refuse_pickles(names, str(reference))
    except MrsError as refusal:
        return refusal
    if "adapter_config.json" in names:
        return UsageError(
            f"{reference} holds an adapter and not a whole model.",
            hint="Merge it into its base model (merge_and_unload in peft), save that, export it.",
        )
    error = SourceNotFoundError(
        f"{reference} holds no model that mrs reads: no config.json with .safetensors files, and "
        "no .gguf file."
    )
    if is_offline():
        error.hint = "The cache may lack a part of it: unset HF_HUB_OFFLINE once to fetch it."
    return error
