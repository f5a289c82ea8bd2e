"""GGUF files as checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType

import numpy as np
from numpy.typing import NDArray

from mrs.errors import CheckpointError
from mrs.export.checkpoints.checkpoint import CheckpointFormat, MetadataValue, TensorInfo
from mrs.export.checkpoints.gguf_header import GgufHeader, parse_header
from mrs.export.checkpoints.gguf_layout import place_tensors
from mrs.export.checkpoints.mapped_file import MappedFile
from mrs.export.checkpoints.placed_tensor import PlacedTensor


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
    file = MappedFile(path)
    try:
        header = parse_header(file.data, path.name)
        _check_whole_model(header, path.name)
        tensors = place_tensors(header, file.size, path.name)
    except BaseException:
        file.close()
        raise
    return GgufCheckpoint(file, header, tensors)


class GgufCheckpoint:
    """A mapped GGUF file; implements `mrs.export.checkpoints.checkpoint.Checkpoint`."""

    def __init__(
        self, file: MappedFile, header: GgufHeader, tensors: dict[str, PlacedTensor]
    ) -> None:
        self.path = file.path
        self.version = header.version
        self._file = file
        self._metadata = MappingProxyType(header.metadata)
        self._placed = tensors
        self._tensors = MappingProxyType({name: t.info for name, t in tensors.items()})

    @property
    def format(self) -> CheckpointFormat:
        """GGUF."""
        return CheckpointFormat.GGUF

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
        return self._file.rows(*self._placed[name].span(start, stop))

    def close(self) -> None:
        """Unmap the file; where views on it are alive, the last of them unmaps it."""
        self._file.close()

    def __enter__(self) -> GgufCheckpoint:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


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
