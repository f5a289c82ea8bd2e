"""The header of a safetensors file, parsed as hostile input.

The file is a length (u64, little-endian), a JSON object of that many bytes that maps names to
type, shape and place, and the data, which the tensors fill without holes or overlaps
(https://github.com/huggingface/safetensors#format). Nothing is allocated on the word of the file.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Iterable
from typing import Any

from mrs.errors import CorruptCheckpointError, UnsupportedTensorTypeError
from mrs.export.checkpoints.checkpoint import TensorInfo
from mrs.export.checkpoints.file_kind import HEAD_BYTES, describe_file_kind
from mrs.export.checkpoints.gguf_header import most_tensors, quoted
from mrs.export.checkpoints.json_members import (
    Buffer,
    MalformedJsonError,
    Member,
    members,
    parse_value,
)
from mrs.export.checkpoints.placed_tensor import PlacedTensor

MAX_HEADER_BYTES = 100_000_000
"""The format's own bound."""
MAX_DIMS = 8

_LENGTH = struct.Struct("<Q")
_MAX_ENTRY_BYTES = 4096

BITS = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}
"""Bits of one element, by the format's name of the type."""


def parse_safetensors_header(data: Buffer, file_name: str) -> dict[str, PlacedTensor]:
    """Find every tensor of a mapped file, in the order of the header.

    Args:
        data: the whole file.
        file_name: what errors call it.

    Raises:
        CorruptCheckpointError: the file is no safetensors file, is truncated, or its header lies.
        UnsupportedTensorTypeError: a tensor is of a type that the format does not define.
    """
    stop = _header_stop(data, file_name)
    most = most_tensors(len(data))
    tensors: dict[str, PlacedTensor] = {}
    try:
        for member in members(data, _LENGTH.size, stop):
            if member.key == "__metadata__":
                _check_metadata(data, member, file_name)
                continue
            if member.key in tensors:
                raise _corrupt(file_name, f"the tensor {quoted(member.key)} occurs twice")
            if len(tensors) == most:
                raise _corrupt(file_name, f"it has more than {most} tensors")
            tensors[member.key] = _tensor(data, member, stop, file_name)
    except MalformedJsonError as error:
        raise _corrupt(file_name, f"the header cannot be read: {error}") from None
    _check_places(tensors.values(), stop, len(data), file_name)
    return tensors


def _header_stop(data: Buffer, file_name: str) -> int:
    """The first byte after the header, which starts behind its length."""
    size = len(data)
    claimed = _LENGTH.unpack_from(data)[0] if size >= _LENGTH.size else 0
    if data[_LENGTH.size : _LENGTH.size + 1] != b"{" or claimed < 2:
        kind, hint = describe_file_kind(data[:HEAD_BYTES])
        raise CorruptCheckpointError(
            f"{file_name} is not a safetensors file: it is {kind}.",
            hint=hint.replace(".gguf", ".safetensors"),
        )
    if claimed > MAX_HEADER_BYTES:
        raise _corrupt(file_name, f"the header claims {claimed} bytes, over {MAX_HEADER_BYTES}")
    missing = _LENGTH.size + int(claimed) - size
    if missing > 0:
        raise _truncated(file_name, f"its header of {claimed} bytes lacks {missing} of them")
    return _LENGTH.size + int(claimed)


def _check_metadata(data: Buffer, metadata: Member, file_name: str) -> None:
    """Texts by name, of which nothing is kept."""
    for member in members(data, metadata.start, metadata.stop):
        if not isinstance(parse_value(data, member, MAX_HEADER_BYTES), str):
            raise _corrupt(file_name, f"__metadata__ {quoted(member.key)} is no text")


def _tensor(data: Buffer, member: Member, data_start: int, file_name: str) -> PlacedTensor:
    what = f"tensor {quoted(member.key)}"
    if not member.key:
        raise _corrupt(file_name, f"the tensor at byte {member.start} has no name")
    entry = parse_value(data, member, _MAX_ENTRY_BYTES)
    if not isinstance(entry, dict):
        raise _corrupt(file_name, f"{what} is described by {entry!r:.80} and not by an object")
    shape = _naturals(entry.get("shape"))
    if shape is None or len(shape) > MAX_DIMS:
        raise _corrupt(file_name, f"{what} has the impossible shape {_shown(entry, 'shape')}")
    offsets = _naturals(entry.get("data_offsets"))
    if offsets is None or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise _corrupt(
            file_name, f"{what} has the impossible data_offsets {_shown(entry, 'data_offsets')}"
        )
    dtype, bits = _storage_type(entry, what, file_name)
    start, stop = offsets
    if math.prod(shape) * bits != 8 * (stop - start):
        raise _corrupt(
            file_name,
            f"{what} of type {dtype} and shape {list(shape)} takes "
            f"{math.prod(shape) * bits / 8:.15g} bytes, and not {stop - start}",
        )
    row_bits = shape[-1] * bits if shape else bits
    if row_bits % 8:
        raise _corrupt(file_name, f"{what} has rows of {row_bits} bits, which is no whole byte")
    info = TensorInfo(member.key, shape, dtype)
    return PlacedTensor(info, data_start + start, math.prod(shape[:-1]), row_bits // 8)


def _storage_type(entry: dict[str, Any], what: str, file_name: str) -> tuple[str, int]:
    """Name and bits per element of a tensor's type."""
    dtype = entry.get("dtype")
    if not isinstance(dtype, str) or dtype not in BITS:
        raise UnsupportedTensorTypeError(
            f"{file_name}: {what} has storage type {_shown(entry, 'dtype')}, which is unknown.",
            hint="Save the model in BF16, F16 or F32.",
        )
    return sys.intern(dtype), BITS[dtype]


def _naturals(value: Any) -> tuple[int, ...] | None:
    """A list of integers from 0, or None if it is anything else."""
    if not isinstance(value, list):
        return None
    if any(type(number) is not int or number < 0 for number in value):
        return None
    return tuple(value)


def _shown(entry: dict[str, Any], key: str) -> str:
    return f"{entry[key]!r:.80}" if key in entry else "(none)"


def _check_places(
    tensors: Iterable[PlacedTensor], data_start: int, file_size: int, file_name: str
) -> None:
    """The format allows neither overlaps nor holes, which could hide something."""
    position, previous = data_start, "the header"
    for tensor in sorted(tensors, key=lambda tensor: (tensor.start, tensor.stop)):
        name = f"tensor {quoted(tensor.info.name)}"
        if tensor.start < position:
            raise _corrupt(file_name, f"{name} overlaps {previous}")
        if tensor.start > position:
            hole = tensor.start - position
            raise _corrupt(file_name, f"{hole} bytes between {previous} and {name} are unused")
        position, previous = tensor.stop, name
    if position > file_size:
        raise _truncated(file_name, f"the last {position - file_size} bytes of tensors are missing")
    if position < file_size:
        raise _corrupt(file_name, f"the last {file_size - position} bytes belong to no tensor")


def _truncated(file_name: str, problem: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"{file_name} is truncated: {problem}.",
        hint="The file is incomplete or damaged: download or copy it again.",
    )


def _corrupt(file_name: str, message: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"{file_name}: {message}.",
        hint="The file is damaged or was made by a faulty tool: get another copy.",
    )
