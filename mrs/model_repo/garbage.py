"""Collecting what dead processes left behind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from filelock import Timeout

from mrs.model_repo.layout import RepositoryLayout, liveness_lock, liveness_path
from mrs.model_repo.storage import is_empty, remove_tree, storage_errors

_LOCK_SUFFIX = ".lock"


@dataclass(frozen=True)
class GcReport:
    """What a collection did.

    Attributes:
        stages: stages deleted, whose processes had died.
        trashed: half-deleted versions deleted for good.
        empty_models: model folders without any version deleted.
        living_stages: stages left alone, because their processes live.
        bytes_freed: bytes of all files deleted.
    """

    stages: int
    trashed: int
    empty_models: int
    living_stages: int
    bytes_freed: int


def collect(layout: RepositoryLayout) -> GcReport:
    """Delete dead stages, trash and empty model folders.

    Raises:
        StorageError: something cannot be deleted.
    """
    if not layout.root.exists():
        return GcReport(0, 0, 0, 0, 0)
    with layout.exclusive():
        trashed = len(_entries(layout.trash))
        dead, living = _sort_stages(layout)
        for path in dead:
            layout.move_to_trash(path)
        empty = sum(_remove_if_empty(layout.root / name) for name in layout.names())
    # The long part needs no lock: nothing but a collector looks into the trash.
    freed = sum(remove_tree(path) for path in _entries(layout.trash))
    return GcReport(len(dead), trashed, empty, living, freed)


def _sort_stages(layout: RepositoryLayout) -> tuple[list[Path], int]:
    """Return the dead stages and the number of living ones; lone lock files of the dead go."""
    entries = _entries(layout.staging)
    locks = {path for path in entries if path.name.endswith(_LOCK_SUFFIX)}
    stages = {path for path in entries if path not in locks}
    owners = stages | {path.with_name(path.name.removesuffix(_LOCK_SUFFIX)) for path in locks}
    dead = [path for path in sorted(owners) if _is_dead(path)]
    for path in dead:
        with storage_errors(path):
            liveness_path(path).unlink(missing_ok=True)
    living = len(owners) - len(dead)
    # A stage that ended by itself since it was listed is gone.
    return [path for path in dead if path.exists()], living


def _is_dead(stage: Path) -> bool:
    lock = liveness_lock(stage)
    with storage_errors(stage):
        try:
            lock.acquire()
        except Timeout:
            return False
        lock.release()
    return True


def _remove_if_empty(folder: Path) -> bool:
    with storage_errors(folder):
        if not is_empty(folder):
            return False
        folder.rmdir()
        return True


def _entries(folder: Path) -> list[Path]:
    with storage_errors(folder):
        try:
            return sorted(folder.iterdir())
        except FileNotFoundError:
            return []
