"""GGUF files as checkpoints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType

import numpy as np
from numpy.typing import NDArray

from mrs.errors import CheckpointError, CorruptCheckpointError
from mrs.export.checkpoints.checkpoint import CheckpointFormat, MetadataValue, TensorInfo
from mrs.export.checkpoints.gguf_header import GgufHeader, parse_header, quoted
from mrs.export.checkpoints.gguf_layout import place_tensors
from mrs.export.checkpoints.gguf_split import check_split, find_parts
from mrs.export.checkpoints.mapped_file import MappedFile
from mrs.export.checkpoints.placed_tensor import PlacedTensor


def open_gguf(path: Path) -> GgufCheckpoint:
    """Map a GGUF file, or all parts of a split one, and check the headers; no tensor is read.

    The strings of ``tokenizer.ggml.tokens`` and ``tokenizer.ggml.merges`` may hold lone
    surrogates for bytes that are not UTF-8; see
    `mrs.export.checkpoints.gguf_header.LENIENT_STRING_KEYS`.

    Args:
        path: the file, or any part of a split model (``x-00001-of-00003.gguf``).

    Raises:
        CorruptCheckpointError: a file is no GGUF file, is truncated, its header lies, or the parts
            do not belong together.
        CheckpointError: a GGUF file that mrs does not read: a version or byte order.
        UnsupportedTensorTypeError: a tensor is of a type that mrs does not know.
        SourceNotFoundError, UsageError, StorageError: there is no such file, a part is missing, it
            is a folder or a device, or it cannot be read.
    """
    parts: list[_Part] = []
    try:
        for part_path in find_parts(path):
            parts.append(_open_part(part_path))
        check_split([part.header for part in parts], [part.file.path.name for part in parts])
        _check_model(parts[0].header, parts[0].file.path.name)
        checkpoint = GgufCheckpoint(parts)
        _check_vocabulary(parts[0].header, checkpoint)
        return checkpoint
    except BaseException:
        for part in parts:
            part.file.close()
        raise


@dataclass(frozen=True)
class _Part:
    """One file of a model."""

    file: MappedFile
    header: GgufHeader
    tensors: dict[str, PlacedTensor]


class GgufCheckpoint:
    """Mapped GGUF files; implements `mrs.export.checkpoints.checkpoint.Checkpoint`."""

    def __init__(self, parts: Sequence[_Part]) -> None:
        self.path = parts[0].file.path
        self.version = parts[0].header.version
        self._parts = parts
        self._metadata = MappingProxyType(parts[0].header.metadata)
        self._placed = _placed(parts)
        self._tensors = MappingProxyType({name: t.info for name, (_, t) in self._placed.items()})

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
        """All metadata by key, in the order of the file; of a split model, the first part's."""
        return self._metadata

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """All tensors by name, in the order of the headers."""
        return self._tensors

    def read_rows(self, name: str, start: int, stop: int) -> NDArray[np.uint8]:
        """View rows ``start:stop`` of a tensor as read-only uint8 ``[rows, bytes_per_row]``.

        Raises:
            CorruptCheckpointError: the file has become shorter since it was opened.
            KeyError: there is no such tensor.
            IndexError: the tensor has no such rows.
            ValueError: the checkpoint is closed.
        """
        file, tensor = self._placed[name]
        return file.rows(*tensor.span(start, stop))

    def close(self) -> None:
        """Unmap the files; where views on one are alive, the last of them unmaps it."""
        for part in self._parts:
            part.file.close()

    def __enter__(self) -> GgufCheckpoint:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _open_part(path: Path) -> _Part:
    file = MappedFile(path)
    try:
        header = parse_header(file.data, path.name)
        return _Part(file, header, place_tensors(header, file.size, path.name))
    except BaseException:
        file.close()
        raise


def _placed(parts: Sequence[_Part]) -> dict[str, tuple[MappedFile, PlacedTensor]]:
    placed: dict[str, tuple[MappedFile, PlacedTensor]] = {}
    for part in parts:
        for name, tensor in part.tensors.items():
            if name in placed:
                raise CorruptCheckpointError(
                    f"The tensor {quoted(name)} is both in {placed[name][0].path.name} and in "
                    f"{part.file.path.name}.",
                    hint="Download all parts again, from one place.",
                )
            placed[name] = (part.file, tensor)
    return placed


def _check_model(header: GgufHeader, file_name: str) -> None:
    if not isinstance(header.metadata.get("general.architecture"), str):
        raise CheckpointError(
            f"{file_name} does not say its architecture (general.architecture), so it holds no "
            "language model.",
            hint="Export the model's main .gguf file.",
        )


def _check_vocabulary(header: GgufHeader, checkpoint: GgufCheckpoint) -> None:
    """Before the tokens become objects: rows of the embedding are real, and bound their number."""
    tokens = header.metadata.length("tokenizer.ggml.tokens")
    embedding = checkpoint.tensors.get("token_embd.weight")
    if embedding is not None and tokens > (rows := math.prod(embedding.shape[:-1])):
        raise CorruptCheckpointError(
            f"The vocabulary has {tokens} tokens, the embedding only {rows} rows.",
            hint="Convert the model again with a current converter.",
        )
