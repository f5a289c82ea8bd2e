"""Which files of a Hugging Face folder hold its tensors."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from itertools import islice
from pathlib import Path

from mrs.errors import CheckpointError, CorruptCheckpointError, SourceNotFoundError, StorageError
from mrs.export.checkpoints.gguf_header import quoted
from mrs.export.checkpoints.json_members import MalformedJsonError, members, parse_value
from mrs.export.checkpoints.mapped_file import MappedFile
from mrs.model_repo.contained_path import is_contained

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
MAX_SHARDS = 1000

_MOST_ENTRIES = 20_000
_MAX_INDEX_BYTES = 100_000_000
_MAX_INDEX_ENTRIES = 1 << 19
"""A model of 10^12 parameters with 400 experts in each of 60 layers has half as many tensors."""
_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})\.safetensors")
# Mistral's repositories hold their weights a second time, under other names.
_SECOND_COPIES = re.compile(r"consolidated.*\.safetensors")
_ADAPTER = "adapter_model.safetensors"


def find_shards(folder: Path) -> tuple[Path, ...]:
    """The safetensors files that together are the model in a folder, by name.

    Raises:
        SourceNotFoundError: the folder, or a shard, is missing.
        CheckpointError: it holds an adapter, or several models.
        CorruptCheckpointError: the index is malformed.
        StorageError: it cannot be read.
    """
    names = choose_shards(_names_in(folder), lambda: read_index(folder / INDEX_FILE), str(folder))
    return tuple(folder / name for name in names)


def choose_shards(
    names: Collection[str], read_places: Callable[[], Mapping[str, str]], where: str
) -> list[str]:
    """Choose the safetensors files that together are the model, sorted.

    `SINGLE_FILE` if there is one, else what `INDEX_FILE` names, else all that are not a second
    copy of the weights.

    Args:
        names: files of one folder; others than safetensors files and the index are passed over.
        read_places: gives the file of each tensor out of the index, if that is among them.
        where: what errors call the folder.

    Raises:
        SourceNotFoundError: there are none, or one is missing.
        CheckpointError: they are an adapter, or several models.
        CorruptCheckpointError: the index is malformed.
    """
    present = {name for name in names if name.endswith(".safetensors")}
    if SINGLE_FILE in present:
        return [SINGLE_FILE]
    if INDEX_FILE in names:
        chosen = sorted(set(read_places().values()))
        _check_present(chosen, present, where)
    else:
        chosen = _without_index(sorted(present), where)
    if len(chosen) > MAX_SHARDS:
        raise CheckpointError(f"{where} holds {len(chosen)} shards, more than {MAX_SHARDS}.")
    return chosen


def read_index(path: Path) -> dict[str, str]:
    """The ``weight_map`` of an index: the file of each tensor.

    Raises:
        CorruptCheckpointError: it is malformed, or names a file outside its folder.
    """
    file = MappedFile(path, INDEX_FILE)
    try:
        if file.size > _MAX_INDEX_BYTES:
            raise _corrupt_index(path, f"it has {file.size} bytes, over {_MAX_INDEX_BYTES}")
        return _weight_map(file, path)
    except MalformedJsonError as error:
        raise _corrupt_index(path, str(error)) from None
    finally:
        file.close()


def _weight_map(file: MappedFile, path: Path) -> dict[str, str]:
    places: dict[str, str] = {}
    files: dict[str, str] = {}  # each name once: there are far fewer files than tensors
    for member in members(file.data, 0, file.size):
        if member.key != "weight_map":
            continue
        for tensor in members(file.data, member.start, member.stop):
            name = parse_value(file.data, tensor, limit=1024)
            if not isinstance(name, str) or not is_contained(name) or "/" in name:
                raise _corrupt_index(path, f"{quoted(tensor.key)} is said to be in {name!r:.80}")
            if len(places) == _MAX_INDEX_ENTRIES:
                raise _corrupt_index(path, f"it names more than {_MAX_INDEX_ENTRIES} tensors")
            places[tensor.key] = files.setdefault(name, name)
    if not places:
        raise _corrupt_index(path, "it has no weight_map")
    return places


def _names_in(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in islice(folder.iterdir(), _MOST_ENTRIES)]
    except (FileNotFoundError, NotADirectoryError):
        raise SourceNotFoundError(
            f"There is no folder {folder}.", hint="Check the path of the model's folder."
        ) from None
    except (OSError, ValueError) as error:
        raise StorageError(
            f"Cannot read {folder}: {getattr(error, 'strerror', None) or error}.",
            hint="Check the folder's permissions.",
        ) from None


def _without_index(names: list[str], where: str) -> list[str]:
    if names == [_ADAPTER]:
        raise CheckpointError(
            f"{where} holds an adapter ({_ADAPTER}) and not a whole model.",
            hint="Merge it into its base model (merge_and_unload in peft), save that, export it.",
        )
    names = [name for name in names if not _is_aside(name)] or names
    if not names:
        raise SourceNotFoundError(
            f"There is no .safetensors file in {where}.",
            hint="Download the whole model, or save it with save_pretrained.",
        )
    shards = {name: match for name in names if (match := _SHARD.fullmatch(name))}
    if len(shards) < len(names) > 1:
        raise CheckpointError(
            f"{where} holds several safetensors files and no {INDEX_FILE} that tells which of "
            f"them are the model: {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}.",
            hint="Leave only the files of the model in it.",
        )
    _check_complete(shards, names, where)
    return names


def _is_aside(name: str) -> bool:
    return name == _ADAPTER or _SECOND_COPIES.fullmatch(name) is not None


def _check_complete(
    shards: Mapping[str, re.Match[str]], names: Collection[str], where: str
) -> None:
    """Shards tell how many they are."""
    if not shards:
        return
    sets = {(match["stem"], match["count"]) for match in shards.values()}
    if len(sets) > 1:
        named = " and ".join(f"{stem}-*-of-{count}" for stem, count in sorted(sets)[:3])
        raise CheckpointError(
            f"{where} holds shards of several models: {named}.",
            hint="Leave only the files of one model in it.",
        )
    ((stem, count),) = sets
    if int(count) > MAX_SHARDS:
        raise CheckpointError(f"{where} holds one of {count} shards, more than {MAX_SHARDS}.")
    wanted = [f"{stem}-{number:05}-of-{count}.safetensors" for number in range(1, int(count) + 1)]
    _check_present(wanted, names, where)


def _check_present(wanted: list[str], names: Collection[str], where: str) -> None:
    missing = [name for name in wanted if name not in names]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise SourceNotFoundError(
            f"{len(missing)} of the {len(wanted)} shards of the model in {where} are missing: "
            f"{', '.join(missing[:3])}{more}.",
            hint="Download the whole model.",
        )


def _corrupt_index(path: Path, problem: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"{path.name} cannot be read: {problem}.", hint="Download or copy it again."
    )
