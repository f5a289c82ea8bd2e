"""A Hugging Face model in a folder on this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from mrs.errors import SourceNotFoundError, UsageError
from mrs.export.checkpoints.hf_config import CONFIG_FILE
from mrs.export.checkpoints.safetensors_shards import INDEX_FILE, read_index
from mrs.export.progress import Progress
from mrs.export.sources.file_digests import digest_files, unreadable
from mrs.export.sources.model_files import gguf_models, read_files, refuse_pickles
from mrs.export.sources.naming import model_name_from_file
from mrs.export.sources.source import ResolvedSource
from mrs.model_repo.contained_path import is_contained
from mrs.model_repo.lock import SourceRecord

_MOST_ENTRIES = 20_000
_MOST_SUGGESTIONS = 3
# A folder of the Hub's cache: models--org--name/snapshots/<commit>.
_HUB_CACHE = re.compile(r"models--(?:.+--)?([^/]+)/snapshots/[0-9a-f]{40}")


def resolve_local_folder(path: Path, progress: Progress) -> ResolvedSource:
    """Check and digest a folder with ``config.json``, safetensors and a tokenizer.

    The record names the folder and the digest of every file that an export may read.

    Raises:
        SourceNotFoundError: a shard, or ``config.json``, is missing.
        UsageError: it holds GGUF files, of which one has to be named, or cannot be read.
        CheckpointError: its weights are pickles, an adapter, or several models.
    """
    names = _files_in(path)
    if CONFIG_FILE not in names or not any(name.endswith(".safetensors") for name in names):
        _refuse(path, names)
    chosen = read_files(names, lambda: read_index(path / INDEX_FILE), str(path))
    name = path.resolve().name
    digests = digest_files({file: path / file for file in chosen}, str(path), progress)
    record = SourceRecord(kind="folder", identifier=_checked(name), files=digests)
    return ResolvedSource(record, path, model_name_from_file(_name_in_hub_cache(path) or name))


def _files_in(folder: Path) -> list[str]:
    """Files in a folder and the folders in it, by relative POSIX path."""
    try:
        names = list(islice(_walk(folder, ""), _MOST_ENTRIES))
    except (OSError, ValueError) as error:
        raise unreadable(folder, error) from None
    return [name for name in names if is_contained(name)]


def _walk(folder: Path, prefix: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file():
                yield prefix + entry.name
            elif not prefix and entry.is_dir() and not entry.name.startswith("."):
                yield from _walk(folder / entry.name, f"{entry.name}/")


def _refuse(path: Path, names: list[str]) -> None:
    """Say what to do with a folder that is no Hugging Face model."""
    if models := gguf_models(names):
        shown = ", ".join(str(path / model) for model in models[:_MOST_SUGGESTIONS])
        more = ", ..." if len(models) > _MOST_SUGGESTIONS else ""
        raise UsageError(
            f"{path} is a folder of GGUF files, of which one has to be named.",
            hint=f"Name the file: {shown}{more}",
        )
    refuse_pickles(names, str(path))
    if "params.json" in names and CONFIG_FILE not in names:
        raise SourceNotFoundError(
            f"{path} holds a model in the format of its makers (params.json), which mrs does not "
            "read.",
            hint="Export the same model in the format of transformers (with a config.json).",
        )
    if "adapter_config.json" in names:
        raise UsageError(
            f"{path} holds an adapter and not a whole model.",
            hint="Merge it into its base model (merge_and_unload in peft), save that, export it.",
        )
    missing = CONFIG_FILE if CONFIG_FILE not in names else ".safetensors file"
    raise SourceNotFoundError(
        f"There is no {missing} in {path}, and no GGUF model either.",
        hint="Name a folder as transformers saves it: config.json, .safetensors files and a "
        "tokenizer; or a .gguf file.",
    )


def _checked(name: str) -> str:
    """A record is UTF-8, and so must be the name in it."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(
            f"The folder name {name!r} is not UTF-8.", hint="Rename the folder."
        ) from None
    return name


def _name_in_hub_cache(path: Path) -> str | None:
    match = _HUB_CACHE.fullmatch("/".join(path.resolve().parts[-3:]))
    return match[1] if match else None
