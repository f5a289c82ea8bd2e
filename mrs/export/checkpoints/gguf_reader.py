"""GGUF files as checkpoints."""

from __future__ import annotations

import contextlib
import mmap
import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType

import numpy as np
from numpy.typing import NDArray

from mrs.errors import (
    CheckpointError,
    CorruptCheckpointError,
    SourceNotFoundError,
    StorageError,
    UsageError,
)
from mrs.export.checkpoints.checkpoint import MetadataValue, TensorInfo
from mrs.export.checkpoints.file_kind import describe_file_kind
from mrs.export.checkpoints.gguf_header import GgufHeader, parse_header
from mrs.export.checkpoints.gguf_layout import PlacedTensor, place_tensors


def open_gguf(path: Path) -> GgufCheckpoint:
    """Map a GGUF file and check its header; no tensor is read.

    The strings of ``tokenizer.ggml.tokens`` and ``tokenizer.ggml.merges`` may hold lone
    surrogates for bytes that are not UTF-8; see
    `mrs.export.checkpoints.gguf_header.LENIENT_STRING_KEYS`.

    Raises:
        CorruptCheckpointError: the file is no GGUF file, is truncated, or its header lies.
        CheckpointError: a GGUF file that mrs does not read: a version, byte order or split.
        UnsupportedTensorTypeError: a tensor is of a type that mrs does not know.
        SourceNotFoundError, UsageError, StorageError: there is no such file, it is a folder or
            a device, or it cannot be read.
    """
    data = _map_file(path)
    try:
        header = parse_header(data, path.name)
        _check_whole_model(header, path.name)
        tensors = place_tensors(header, len(data), path.name)
    except BaseException:
        data.close()
        raise
    return GgufCheckpoint(path, data, header, tensors)


class GgufCheckpoint:
    """A mapped GGUF file; implements `mrs.export.checkpoints.checkpoint.Checkpoint`."""

    def __init__(
        self, path: Path, data: mmap.mmap, header: GgufHeader, tensors: dict[str, PlacedTensor]
    ) -> None:
        self.path = path
        self.version = header.version
        self._data = data
        self._size = len(data)
        self._metadata = MappingProxyType(header.metadata)
        self._placed = tensors
        self._tensors = MappingProxyType({name: t.info for name, t in tensors.items()})

    @property
    def architecture(self) -> str:
        """The model family, ``general.architecture``."""
        return str(self._metadata["general.architecture"])

    @property
    def metadata(self) -> Mapping[str, MetadataValue]:
        """All metadata by key, in the order of the file."""
        return self._metadata

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """All tensors by name, in the order of the header."""
        return self._tensors

    def read_rows(self, name: str, start: int, stop: int) -> NDArray[np.uint8]:
        """View rows ``start:stop`` of a tensor as read-only uint8 ``[rows, bytes_per_row]``.

        Raises:
            CorruptCheckpointError: the file has become shorter since it was opened.
            KeyError: there is no such tensor.
            IndexError: the tensor has no such rows.
            ValueError: the checkpoint is closed.
        """
        tensor = self._placed[name]
        if not 0 <= start <= stop <= tensor.rows:
            raise IndexError(f"rows {start}:{stop} of {name}, which has {tensor.rows}")
        self._check_not_shrunk()
        return np.frombuffer(
            self._data,
            np.uint8,
            (stop - start) * tensor.row_bytes,
            tensor.start + start * tensor.row_bytes,
        ).reshape(stop - start, tensor.row_bytes)

    def _check_not_shrunk(self) -> None:
        """Touching a mapped page beyond the end of its file would kill the process."""
        size = self._data.size()
        if size < self._size:
            raise CorruptCheckpointError(
                f"{self.path.name} has shrunk from {self._size} to {size} bytes since it was "
                "opened.",
                hint="Something else writes to the file: wait until it is done and start again.",
            )

    def close(self) -> None:
        """Unmap the file; where views on it are alive, the last of them unmaps it."""
        with contextlib.suppress(BufferError):
            self._data.close()

    def __enter__(self) -> GgufCheckpoint:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _map_file(path: Path) -> mmap.mmap:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{path} is not a regular file.", hint="Name a .gguf file.")
        if status.st_size == 0:
            kind, hint = describe_file_kind(b"")
            raise CorruptCheckpointError(f"{path.name} is {kind}.", hint=hint)
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (FileNotFoundError, NotADirectoryError):
        raise SourceNotFoundError(
            f"There is no file {path}.", hint="Check the path to the .gguf file."
        ) from None
    except (OSError, ValueError) as error:
        raise StorageError(
            f"Cannot read {path}: {getattr(error, 'strerror', None) or error}.",
            hint="Check the file's permissions.",
        ) from None


def _check_whole_model(header: GgufHeader, file_name: str) -> None:
    """Refuse what is a proper GGUF file and yet not one model."""
    parts = header.metadata.get("split.count", 1)
    if isinstance(parts, int) and parts > 1:
        raise CheckpointError(
            f"{file_name} is one of {parts} parts of a split model, which mrs does not read.",
            hint="Merge the parts with `llama-gguf-split --merge` and export the result.",
        )
    if not isinstance(header.metadata.get("general.architecture"), str):
        raise CheckpointError(
            f"{file_name} does not say its architecture (general.architecture), so it holds no "
            "language model.",
            hint="Export the model's main .gguf file.",
        )
