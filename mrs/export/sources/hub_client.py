"""The Hub through huggingface_hub, and its failures in words.

The user's own settings hold: the token (``HF_TOKEN`` or a login), ``HF_HUB_OFFLINE``, the cache
(``HF_HOME``, ``HF_HUB_CACHE``) and a mirror (``HF_ENDPOINT``). Finished files are never fetched
again, and an interrupted download goes on where it stopped.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrs.errors import DownloadError, MrsError, SourceNotFoundError, StorageError
from mrs.export.progress import Advance, Progress
from mrs.export.sources.hub_reference import HubReference
from mrs.export.sources.hub_transfer import LargeFile, fetch_large
from mrs.model_repo.contained_path import is_contained

_MOST_FILES = 50_000
_DISK_FULL = 28
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class HubListing:
    """The files of a repository at one commit.

    Attributes:
        commit: full id.
        sizes: bytes of each file by its path; None where the Hub does not say.
        sha256: digests that the Hub states of large files, by path.
        folder: the commit's folder in the cache, if this is what the cache holds.
    """

    commit: str
    sizes: dict[str, int | None]
    sha256: dict[str, str]
    folder: Path | None = None


def is_offline() -> bool:
    """Whether the user forbids the network (``HF_HUB_OFFLINE``)."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def list_repository(reference: HubReference, progress: Progress) -> HubListing:
    """Ask the Hub which commit a revision is and which files it has.

    Raises:
        SourceNotFoundError: no such repository or revision, or none that the user may see.
        DownloadError: the repository is gated, or the Hub cannot be reached.
    """
    from huggingface_hub import HfApi

    with progress.phase(f"Look up {reference.repository}"), _failures(reference):
        info = HfApi(library_name="mrs").model_info(
            reference.repository, revision=reference.revision, files_metadata=True
        )
    if info.sha is None or not _COMMIT.fullmatch(info.sha):
        raise DownloadError(f"The Hub does not say which commit {reference} is.")
    files = [file for file in info.siblings or () if is_contained(file.rfilename)][:_MOST_FILES]
    return HubListing(
        commit=info.sha,
        sizes={file.rfilename: file.size for file in files},
        sha256={file.rfilename: file.lfs.sha256 for file in files if file.lfs is not None},
    )


def list_cache(reference: HubReference) -> HubListing | None:
    """What the cache holds of a revision, or None if that is nothing."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        with _failures(reference, expected=LocalEntryNotFoundError):
            folder = snapshot_download(
                reference.repository,
                revision=reference.revision,
                local_files_only=True,
                allow_patterns=[],  # of an incomplete folder, what is there will do
            )
    except LocalEntryNotFoundError:
        return None
    path = Path(folder)
    files = sorted(
        str(file.relative_to(path).as_posix()) for file in path.rglob("*") if file.is_file()
    )
    sizes: dict[str, int | None] = {name: None for name in files if is_contained(name)}
    return HubListing(commit=path.name, sizes=sizes, sha256={}, folder=path)


def cached_file(reference: HubReference, commit: str, name: str) -> Path | None:
    """Where the cache has a file of a commit, or None."""
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(reference.repository, name, revision=commit)
    return Path(path) if isinstance(path, str) else None


def download_file(
    reference: HubReference,
    revision: str,
    name: str,
    listing: HubListing,
    progress: Progress,
) -> Path:
    """Fetch one file into the cache, unless it is there, and return where it is.

    Args:
        reference: the repository.
        revision: a commit; or a branch, to have the cache remember its commit.
        name: path in the repository.
        listing: what the Hub says of the repository.
        progress: advanced by the bytes that arrive.

    Raises:
        SourceNotFoundError, DownloadError: as `list_repository`.
        StorageError: the cache cannot be written, or the disk is full.
    """
    from huggingface_hub import hf_hub_download

    size = listing.sizes[name]
    large = LargeFile(reference, listing.commit, name, size or 0, listing.sha256.get(name, ""))
    with (
        progress.phase(f"Download {name}", total=size, unit="bytes") as advance,
        _failures(reference),
    ):
        if large.is_large:
            fetch_large(large, advance)
        return Path(
            hf_hub_download(
                reference.repository,
                name,
                revision=revision,
                library_name="mrs",
                tqdm_class=_bar_class(advance),
            )
        )


def _bar_class(advance: Advance) -> Any:
    """A class of progress bars that shows nothing and reports bytes."""
    from tqdm import tqdm

    class Bar(tqdm):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**kwargs, "disable": True})
            if self.n:  # what an earlier attempt left
                advance(int(self.n))

        def update(self, n: float | None = 1) -> bool | None:
            if n:
                advance(int(n))
            return None

        def update_transfer(self, n: float | None = 1) -> None:
            """Bytes on the wire are no progress of the file."""

    return Bar


@contextmanager
def _failures(
    reference: HubReference, expected: type[Exception] | tuple[()] = ()
) -> Iterator[None]:
    """Put what the library raises in words, but for ``expected``."""
    try:
        yield
    except MrsError:
        raise
    except expected:
        raise
    except Exception as error:
        # The library's HTTP client, and so the tree of its errors, changes between releases.
        raise _explained(error, reference) from error


def _explained(error: Exception, reference: HubReference) -> MrsError:
    from huggingface_hub import errors

    repository = reference.repository
    if isinstance(error, errors.GatedRepoError):
        return DownloadError(
            f"{repository} is gated: its owners give access on request.",
            hint="Accept its terms on its page, then log in with `hf auth login` or set HF_TOKEN.",
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return not_on_hub(repository)
    if isinstance(error, errors.RevisionNotFoundError):
        return SourceNotFoundError(
            f"{repository} has no revision {reference.revision!r}.",
            hint="A revision is a branch, a tag or a whole commit id; leave it out for main.",
        )
    if isinstance(error, errors.LocalEntryNotFoundError | errors.OfflineModeIsEnabled):
        return unreachable(reference)
    if isinstance(error, errors.EntryNotFoundError):
        return SourceNotFoundError(f"{reference} lacks a file that its list names.")
    if isinstance(error, errors.HFValidationError):
        return SourceNotFoundError(f"{reference} is no name of a repository on the Hub.")
    if isinstance(error, errors.HfHubHTTPError):
        return _http_failure(error, reference)
    if isinstance(error, OSError) and error.errno is not None:
        return _storage_failure(error)
    return unreachable(reference, f"{type(error).__name__}: {_one_line(error)}")


def _http_failure(error: Any, reference: HubReference) -> MrsError:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status == 401:
        return DownloadError(
            f"The Hub does not accept your token for {reference.repository}.",
            hint="Log in again with `hf auth login`, or correct HF_TOKEN.",
        )
    if status == 403:
        return DownloadError(
            f"The Hub denies access to {reference.repository}.",
            hint="Ask its owners for access, then log in with `hf auth login` or set HF_TOKEN.",
        )
    if status == 429:
        return DownloadError(
            "The Hub takes no more requests from here for now (429).",
            hint="Wait some minutes; with a token (HF_TOKEN) the limits are higher.",
        )
    return unreachable(reference, f"it answered with status {status}")


def _storage_failure(error: OSError) -> StorageError:
    from huggingface_hub import constants

    if error.errno == _DISK_FULL:
        problem = "The disk became full during the download."
    else:
        where = error.filename or constants.HF_HUB_CACHE
        problem = f"The Hub's cache cannot be used: {where}: {os.strerror(error.errno or 0)}."
    return StorageError(problem, hint="Set HF_HUB_CACHE to a folder that is writable and has room.")


def not_on_hub(repository: str) -> SourceNotFoundError:
    """Make the error for a name that is neither a path here nor a repository to be seen."""
    return SourceNotFoundError(
        f"There is no folder {repository} here, and no repository {repository} on the Hub.",
        hint="Check the spelling; if the repository is private, log in with `hf auth login` or set "
        "HF_TOKEN.",
    )


def unreachable(reference: HubReference, reason: str = "") -> DownloadError:
    """Make the error for a Hub that cannot be asked."""
    return DownloadError(
        f"There is no folder {reference.repository} here, and the Hub could not be reached"
        + (f" ({reason})." if reason else "."),
        hint="Check the network, and HF_ENDPOINT and the proxy if they are set.",
    )


def _one_line(error: Exception, longest: int = 160) -> str:
    text = re.sub(r"https?://[^\s'\"]+", "the Hub", " ".join(str(error).split())).rstrip(".")
    return text if len(text) <= longest else text[: longest - 3] + "..."
