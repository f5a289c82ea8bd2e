"""llama.cpp's importance matrices: sums of squared activations for each column of each tensor.

There are two files: a GGUF file with ``<tensor>.in_sum2`` and ``<tensor>.counts``, and the older
one of ``llama-imatrix --output-format dat``: a number of entries, each with a name, the number of
calls and the values, all numbers of 32 bits, little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import closing
from mmap import mmap
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mrs.errors import CorruptCheckpointError, UsageError
from mrs.export.checkpoints.checkpoint import TensorInfo
from mrs.export.checkpoints.gguf_header import parse_header
from mrs.export.checkpoints.gguf_layout import place_tensors
from mrs.export.checkpoints.mapped_file import MappedFile
from mrs.export.quantization.importance import TensorImportance

Squares = NDArray[np.float32]

_MAGIC = b"GGUF"
_SUMS, _COUNTS = ".in_sum2", ".counts"
# Beyond what any tensor is called.
_LONGEST_NAME = 256
_SMALLEST_ENTRY = 12
_HINT = "Make it with llama-imatrix, of the model that is exported."


def read_imatrix(path: Path) -> dict[str, Squares]:
    """Mean squares of activations by tensor name, float32; experts' values follow one another.

    Raises:
        CorruptCheckpointError: the file is no importance matrix, is truncated, or its values are
            not finite or negative.
        SourceNotFoundError, UsageError, StorageError: there is no such file, or it cannot be read.
    """
    with closing(MappedFile(path, suffix="importance matrix")) as file:
        is_gguf = file.data[:4] == _MAGIC
        found = dict(_read_gguf(file) if is_gguf else _read_legacy(file.data, path.name))
    if not found:
        raise _corrupt(path.name, "it holds no tensor")
    for name, squares in found.items():
        if not (np.isfinite(squares).all() and (squares >= 0).all()):
            raise _corrupt(path.name, f"the values of {name!r:.80} are not finite, or negative")
    return found


def fit_importance(
    squares: Mapping[str, Squares], tensors: Mapping[str, TensorInfo], file_name: str
) -> dict[str, TensorImportance]:
    """The importance of the checkpoint's tensors; what the file has of others is left out.

    Raises:
        UsageError: the file is of another model: no tensor of it is in the checkpoint, or one has
            another width.
    """
    found: dict[str, TensorImportance] = {}
    for name in sorted(squares.keys() & tensors.keys()):
        shape, values = tensors[name].shape, squares[name]
        experts = shape[0] if len(shape) == 3 else 1
        if values.size not in (shape[-1], experts * shape[-1]):
            raise UsageError(
                f"The importance matrix {file_name} has {values.size} values for {name!r}, "
                f"whose shape is {list(shape)}.",
                hint=_HINT,
                param="imatrix",
            )
        found[name] = TensorImportance.of_squares(values.reshape(-1, shape[-1]))
    if not found:
        raise UsageError(
            f"The importance matrix {file_name} has no tensor of the model; its first is "
            f"{min(squares)!r:.80}.",
            hint=_HINT,
            param="imatrix",
        )
    return found


def _read_gguf(file: MappedFile) -> Iterator[tuple[str, Squares]]:
    header = parse_header(file.data, file.path.name)
    placed = place_tensors(header, file.size, file.path.name)
    for name, tensor in placed.items():
        if not name.endswith(_SUMS):
            continue
        counts = placed.get(name.removesuffix(_SUMS) + _COUNTS)
        if counts is None or {tensor.info.dtype, counts.info.dtype} != {"F32"}:
            raise _corrupt(file.path.name, f"{name!r:.80} has no counts, or is no float32")
        sums, calls = (
            file.rows(*each.span(0, each.rows)).view("<f4").astype(np.float32)
            for each in (tensor, counts)
        )
        if calls.size != len(sums):
            raise _corrupt(file.path.name, f"{name!r:.80} has {calls.size} counts")
        yield name.removesuffix(_SUMS), _mean(sums, calls.reshape(-1, 1))


def _mean(sums: Squares, counts: NDArray[np.float32]) -> Squares:
    """An expert that was never called has zeros."""
    with np.errstate(all="ignore"):
        return np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)


def _read_legacy(data: mmap, file_name: str) -> Iterator[tuple[str, Squares]]:
    """Entries of the older file; experts' values follow one another."""
    at = 0

    def number(what: str, most: int) -> int:
        nonlocal at
        if at + 4 > len(data):
            raise _corrupt(file_name, f"it ends before {what}")
        (value,) = struct.unpack_from("<i", data, at)
        at += 4
        if not 0 <= value <= most:
            raise _corrupt(file_name, f"{what} is {value}, of {most} possible")
        return int(value)

    for _ in range(number("the number of entries", len(data) // _SMALLEST_ENTRY)):
        length = number("the length of a name", min(_LONGEST_NAME, len(data) - at - 4))
        name = data[at : at + length].decode("utf-8", "replace")
        at += length
        number("a number of calls", 2**31 - 1)
        values = number("a number of values", (len(data) - at - 4) // 4)
        squares = np.frombuffer(data[at : at + 4 * values], "<f4").astype(np.float32)
        at += 4 * values
        yield name, squares.reshape(1, -1)


def _corrupt(file_name: str, reason: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"{file_name} is no importance matrix: {reason}.",
        hint=_HINT,
    )
