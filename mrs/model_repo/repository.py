"""The model repository: a folder of models, each in numbered versions."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path

from mrs.errors import (
    CorruptVersionError,
    InvalidReferenceError,
    ModelNotFoundError,
    MrsError,
)
from mrs.model_repo.garbage import GcReport, collect
from mrs.model_repo.layout import RepositoryLayout
from mrs.model_repo.lock_file import read_lock
from mrs.model_repo.manifest import read_manifest
from mrs.model_repo.reference import ModelReference, check_name, is_name, parse_reference
from mrs.model_repo.staging import StagedVersion, stage
from mrs.model_repo.storage import is_empty, remove_tree, storage_errors
from mrs.model_repo.verification import verify
from mrs.model_repo.version import BrokenVersion, ModelVersion

REPOSITORY_VARIABLE = "MRS_MODEL_REPO"


def default_root() -> Path:
    """``$MRS_MODEL_REPO``, else ``mrs/models`` in the user's data folder."""
    if configured := os.environ.get(REPOSITORY_VARIABLE):
        return Path(configured).expanduser()
    import platformdirs  # Here, so that naming a repository does not need it.

    return platformdirs.user_data_path("mrs") / "models"


class ModelRepository:
    """Finds, adds and removes model versions under one root folder.

    Reading needs no write access and takes no lock. The root is made when the first version is
    staged.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._layout = RepositoryLayout(self.root)

    # --- reading -------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """The names of all models, sorted; some may have no version (yet)."""
        return self._layout.names()

    def entries(self, name: str | None = None) -> list[ModelVersion | BrokenVersion]:
        """All versions (of one model), sorted by name and number, the unreadable ones too.

        Raises:
            InvalidReferenceError: ``name`` cannot be a model's name.
            StorageError: the repository cannot be listed.
        """
        names = self._layout.names() if name is None else [check_name(name)]
        found = (
            self._load_or_explain(each, number)
            for each in names
            for number in self._layout.numbers(each)
        )
        return [entry for entry in found if entry is not None]

    def versions(self, name: str | None = None) -> list[ModelVersion]:
        """The readable versions (of one model), sorted by name and number.

        Raises:
            InvalidReferenceError: ``name`` cannot be a model's name.
            StorageError: the repository cannot be listed.
        """
        return [entry for entry in self.entries(name) if isinstance(entry, ModelVersion)]

    def resolve(self, reference: str) -> ModelVersion:
        """Find the version that a reference names: ``name``, ``name:3``, or a folder.

        Files are not compared with the lock: that is `verify`.

        Raises:
            InvalidReferenceError: the reference is malformed.
            ModelNotFoundError: there is none; the hint lists what there is.
            CorruptVersionError: its lock is missing or malformed. The newest version counts for a
                bare name even then: an older one is never taken instead silently.
        """
        parsed = parse_reference(reference)
        if isinstance(parsed, Path):
            return _load_folder(parsed)
        number = self._existing_number(parsed)
        return self._load(parsed.name, number)

    def locate(self, reference: str) -> ModelReference:
        """Complete a reference to one existing version, readable or not.

        A bare name will do where the model has one version; with more, which one to take is not
        for this function to guess.

        Raises:
            InvalidReferenceError: the reference is malformed, a folder, or ambiguous.
            ModelNotFoundError: there is none.
        """
        parsed = parse_reference(reference)
        if isinstance(parsed, Path):
            raise InvalidReferenceError(
                f"{reference!r} is a folder, not a version in the repository.",
                hint="Name the version, as in smollm2:3.",
            )
        number = self._existing_number(parsed)
        numbers = self._layout.numbers(parsed.name)
        if parsed.number is None and len(numbers) > 1:
            raise InvalidReferenceError(
                f"Model {parsed.name!r} has {len(numbers)} versions.",
                hint=f"Name one of them: {_listed(f'{parsed.name}:{each}' for each in numbers)}.",
            )
        return ModelReference(parsed.name, number)

    def find_by_input(self, name: str, input_digest: str) -> ModelVersion | None:
        """The newest version of a model made from these inputs and whole (by file sizes), if any.

        Raises:
            InvalidReferenceError: ``name`` cannot be a model's name.
            StorageError: the repository cannot be read.
        """
        for version in reversed(self.versions(name)):
            if version.lock.input_digest == input_digest and verify(version, full=False).ok:
                return version
        return None

    # --- changing ------------------------------------------------------------------------------

    def stage(self, name: str) -> AbstractContextManager[StagedVersion]:
        """Start a new version: a context whose `StagedVersion` is written to, then published.

        Leaving the context without publishing deletes what was written.

        Raises:
            InvalidReferenceError: ``name`` cannot be a model's name.
            StorageError: the repository cannot be written.
        """
        return stage(self._layout, check_name(name), self.find_by_input)

    def remove(self, reference: str) -> int:
        """Delete one version and return the bytes freed; see `locate` for the reference.

        It vanishes with one rename; a process that has it open can go on reading it.

        Raises:
            InvalidReferenceError: the reference is malformed, a folder, or ambiguous.
            ModelNotFoundError: there is none.
            StorageError: it cannot be deleted.
        """
        self.locate(reference)  # Before a lock makes a repository where there is none.
        with self._layout.exclusive():
            found = self.locate(reference)
            number = self._existing_number(found)
            # First, since the number may be given to another version.
            self._layout.forget_measurements(found.name, number)
            folder = self._layout.version_path(found.name, number)
            buried = self._layout.move_to_trash(folder)
            with storage_errors(folder.parent):
                if is_empty(folder.parent):
                    folder.parent.rmdir()
        return remove_tree(buried)

    def gc(self) -> GcReport:
        """Delete what dead processes left behind; what living ones write is left alone.

        Raises:
            StorageError: something cannot be deleted.
        """
        return collect(self._layout)

    # --- helpers -------------------------------------------------------------------------------

    def _existing_number(self, reference: ModelReference) -> int:
        numbers = self._layout.numbers(reference.name)
        if not numbers:
            raise self._no_such_model(reference)
        if reference.number is None:
            return numbers[-1]
        if reference.number not in numbers:
            raise ModelNotFoundError(
                f"Model {reference.name!r} has no version {reference.number}.",
                hint=f"It has {_listed(f'{reference.name}:{each}' for each in numbers)}.",
            )
        return reference.number

    def _no_such_model(self, reference: ModelReference) -> ModelNotFoundError:
        names = [name for name in self._layout.names() if self._layout.numbers(name)]
        near = difflib.get_close_matches(reference.name, names, n=3, cutoff=0.5)
        near += [name for name in names if name.startswith(reference.name) and name not in near]
        if near:
            hint = f"Did you mean {_listed(near[:3])}?"
        elif names:
            hint = f"There are {_listed(names[:8])}. See all with `mrs models list`."
        else:
            hint = f"The repository is empty: `mrs export SOURCE --name {reference.name}` fills it."
        if reference.name.endswith(".gguf"):
            hint = f"To export a file of that name: `mrs export ./{reference.name}`. {hint}"
        return ModelNotFoundError(f"No model {reference.name!r} in {self.root}.", hint=hint)

    def _load(self, name: str, number: int) -> ModelVersion:
        path = self._layout.version_path(name, number)
        _refuse_links(path)
        return ModelVersion(name, number, path, read_lock(path))

    def _load_or_explain(self, name: str, number: int) -> ModelVersion | BrokenVersion | None:
        path = self._layout.version_path(name, number)
        try:
            return self._load(name, number)
        except MrsError as error:
            # Removed by another process since its folder was listed: not there, not broken.
            return BrokenVersion(name, number, path, error) if os.path.lexists(path) else None


def _load_folder(folder: Path) -> ModelVersion:
    path = Path(os.path.abspath(folder))  # noqa: PTH100 - Path.absolute() keeps `..`
    if not path.is_dir():
        raise _no_such_folder(path)
    real = path.resolve()
    lock = read_lock(real)
    name = read_manifest(real).package_name
    if not is_name(name):
        raise CorruptVersionError(f"{path} calls its model {name!r}, which is no model name.")
    return ModelVersion(name, None, real, lock)


def _no_such_folder(path: Path) -> ModelNotFoundError:
    if path.is_file():
        hint = f"To export it: `mrs export {path}`."
        return ModelNotFoundError(f"{path} is a file, not a model version.", hint=hint)
    hint = "Name a version's folder, or a model in the repository (`mrs models list`)."
    return ModelNotFoundError(f"There is no folder {path}.", hint=hint)


def _refuse_links(path: Path) -> None:
    with storage_errors(path):
        if not stat.S_ISDIR(path.lstat().st_mode):
            raise CorruptVersionError(
                f"{path} is not a folder.",
                hint="A repository holds its versions itself; for another place, use --repo.",
            )


def _listed(items: Iterable[str]) -> str:
    return ", ".join(items)
