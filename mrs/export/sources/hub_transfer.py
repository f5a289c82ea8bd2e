"""Large files of the Hub, fetched so that an interrupted download goes on where it stopped.

huggingface_hub takes a broken connection up again, but a killed process begins from the start. So
large files are put into its cache here, under the name that it gives them there (their digest);
it then finds them as if it had fetched them.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import filelock

from mrs.errors import DownloadError, StorageError
from mrs.export.progress import Advance
from mrs.export.sources.hub_reference import HubReference

_LARGE = 8 << 20
_LARGEST = 50_000_000_000
"""The Hub gives no larger files over plain HTTP."""
_CHUNK = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MOST_RETRIES = 5


@dataclass(frozen=True)
class LargeFile:
    """A file of a repository that the Hub keeps by its digest.

    Attributes:
        reference: the repository.
        commit: full id.
        name: path in the repository.
        size: bytes.
        sha256: digest that the Hub states; empty if it states none.
    """

    reference: HubReference
    commit: str
    name: str
    size: int
    sha256: str

    @property
    def is_large(self) -> bool:
        """Whether it is worth while to keep a part of it, and possible."""
        return _SHA256.fullmatch(self.sha256) is not None and _LARGE <= self.size <= _LARGEST

    @property
    def cached(self) -> Path:
        """Where huggingface_hub keeps it."""
        from huggingface_hub import constants
        from huggingface_hub.file_download import repo_folder_name

        folder = repo_folder_name(repo_id=self.reference.repository, repo_type="model")
        return Path(constants.HF_HUB_CACHE).expanduser() / folder / "blobs" / self.sha256

    @property
    def lock(self) -> Path:
        """What huggingface_hub locks while it fetches the file."""
        cache = self.cached.parents[2]
        return cache / ".locks" / self.cached.parents[1].name / f"{self.sha256}.lock"


def fetch_large(file: LargeFile, advance: Advance) -> None:
    """Put a file into the cache, unless it is there; what an earlier attempt got is kept.

    Args:
        file: of at least some megabytes.
        advance: told of the bytes, those of an earlier attempt included.

    Raises:
        DownloadError: the bytes are not those that the Hub states.
        StorageError: the disk has no room.
        OSError, and what huggingface_hub raises: the cache cannot be written, or the Hub does not
            give the file.
    """
    target = file.cached
    target.parent.mkdir(parents=True, exist_ok=True)
    file.lock.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.incomplete")
    with filelock.FileLock(file.lock):
        if target.exists():
            return
        with partial.open("ab+") as stream:
            _check_room(file, partial)
            if _complete(file, stream, advance) != file.sha256:
                stream.truncate(0)
                raise DownloadError(
                    f"{file.name} of {file.reference} does not match the digest that the Hub "
                    "states.",
                    hint="What was downloaded is deleted: try again.",
                )
        partial.replace(target)


def _complete(file: LargeFile, stream: BinaryIO, advance: Advance) -> str:
    """Fetch what is missing and return the digest of the whole."""
    digest = hashlib.sha256()
    stream.seek(0)
    while chunk := stream.read(_CHUNK):
        digest.update(chunk)
        advance(len(chunk))
    retries = 0
    while (have := stream.tell()) < file.size:
        try:
            with _response(file, have) as response:
                if have and response.status_code == 200:  # the server begins from the start
                    advance(-have)
                    stream.truncate(0)
                    digest = hashlib.sha256()
                for data in response.iter_bytes():
                    stream.write(data)
                    digest.update(data)
                    advance(len(data))
                    if stream.tell() > file.size:
                        return ""
        except _transport_error():
            if retries == _MOST_RETRIES:
                raise
            _pause()
        retries = retries + 1 if stream.tell() == have else 0
        if retries > _MOST_RETRIES:
            raise DownloadError(
                f"The Hub gives only {have} of the {file.size} bytes of {file.name}.",
                hint="Try again later.",
            )
    stream.flush()
    os.fsync(stream.fileno())
    return digest.hexdigest() if have == file.size else ""


@contextmanager
def _response(file: LargeFile, start: int) -> Iterator[Any]:
    from huggingface_hub import constants, hf_hub_url

    utils: Any = import_module("huggingface_hub.utils")
    url = hf_hub_url(file.reference.repository, file.name, revision=file.commit)
    headers = {**utils.build_hf_headers(library_name="mrs"), "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    timeout = constants.HF_HUB_DOWNLOAD_TIMEOUT
    with utils.get_session().stream(
        "GET", url, headers=headers, timeout=timeout, follow_redirects=True
    ) as response:
        utils.hf_raise_for_status(response)
        yield response


def _transport_error() -> type[Exception]:
    """What the library's HTTP client, which changes between releases, raises for connections."""
    from huggingface_hub.errors import HfHubHTTPError

    client = import_module(HfHubHTTPError.__bases__[0].__module__.partition(".")[0])
    error: type[Exception] = client.TransportError
    return error


def _check_room(file: LargeFile, partial: Path) -> None:
    missing = file.size - partial.stat().st_size
    free = shutil.disk_usage(partial.parent).free
    if missing > free:
        raise StorageError(
            f"The rest of {file.name} takes {missing} bytes, and the disk has {free} left.",
            hint="Free some space, or set HF_HUB_CACHE to a folder on another disk.",
        )


def _pause() -> None:
    time.sleep(1)
