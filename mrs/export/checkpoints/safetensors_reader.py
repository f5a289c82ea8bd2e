"""The tensors of a Hugging Face folder, under their own names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType

import numpy as np
from numpy.typing import NDArray

from mrs.errors import CorruptCheckpointError
from mrs.export.checkpoints.checkpoint import TensorInfo
from mrs.export.checkpoints.gguf_header import quoted
from mrs.export.checkpoints.mapped_file import MappedFile
from mrs.export.checkpoints.placed_tensor import PlacedTensor
from mrs.export.checkpoints.safetensors_header import parse_safetensors_header
from mrs.export.checkpoints.safetensors_shards import INDEX_FILE, find_shards, read_index


def open_safetensors(folder: Path) -> SafetensorsFolder:
    """Map the safetensors files of a folder and check their headers; no tensor is read.

    What comes out does not depend on how the tensors are spread over files.

    Raises:
        CorruptCheckpointError: a file is no safetensors file, is truncated, its header lies, two
            files have a tensor of the same name, or the index disagrees with the files.
        CheckpointError: the folder holds something else than one whole model.
        UnsupportedTensorTypeError: a tensor is of a type that the format does not define.
        SourceNotFoundError, UsageError, StorageError: a file is missing, is no regular file, or
            cannot be read.
    """
    files: list[MappedFile] = []
    try:
        tensors: dict[str, tuple[MappedFile, PlacedTensor]] = {}
        for path in find_shards(folder):
            files.append(MappedFile(path, ".safetensors"))
            _add_tensors(tensors, files[-1])
        if len(files) > 1 or files[0].path.name != "model.safetensors":
            _check_index(folder, tensors)
    except BaseException:
        for file in files:
            file.close()
        raise
    return SafetensorsFolder(folder, files, dict(sorted(tensors.items())))


class SafetensorsFolder:
    """The mapped safetensors files of a model."""

    def __init__(
        self,
        path: Path,
        files: list[MappedFile],
        placed: dict[str, tuple[MappedFile, PlacedTensor]],
    ) -> None:
        self.path = path
        self._files = files
        self._placed = placed
        self._tensors = MappingProxyType({name: t.info for name, (_, t) in placed.items()})

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """All tensors by their own names, sorted; types in the format's words (``BF16``)."""
        return self._tensors

    def read_rows(self, name: str, start: int, stop: int) -> NDArray[np.uint8]:
        """View rows ``start:stop`` of a tensor as read-only uint8 ``[rows, bytes_per_row]``.

        A row is one index of all dimensions but the last; a scalar or 1-D tensor has one row.

        Raises:
            CorruptCheckpointError: the file has become shorter since it was opened.
            KeyError: there is no such tensor.
            IndexError: the tensor has no such rows.
            ValueError: the folder is closed.
        """
        file, tensor = self._placed[name]
        return file.rows(*tensor.span(start, stop))

    def close(self) -> None:
        """Unmap the files; where views on one are alive, the last of them unmaps it."""
        for file in self._files:
            file.close()

    def __enter__(self) -> SafetensorsFolder:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _add_tensors(tensors: dict[str, tuple[MappedFile, PlacedTensor]], file: MappedFile) -> None:
    for name, tensor in parse_safetensors_header(file.data, file.path.name).items():
        if name in tensors:
            first = tensors[name][0].path.name
            raise CorruptCheckpointError(
                f"The tensor {quoted(name)} is both in {first} and in {file.path.name}.",
                hint="Leave only the files of one model in the folder.",
            )
        tensors[name] = (file, tensor)


def _check_index(folder: Path, tensors: Mapping[str, tuple[MappedFile, PlacedTensor]]) -> None:
    """What an index promises must be there; what it does not mention does no harm."""
    if not (folder / INDEX_FILE).is_file():
        return
    for name, file_name in read_index(folder / INDEX_FILE).items():
        if name not in tensors or tensors[name][0].path.name != file_name:
            raise CorruptCheckpointError(
                f"The tensor {quoted(name)} is not in {file_name}, where {INDEX_FILE} has it.",
                hint="Files of different downloads were mixed: download the model again.",
            )
