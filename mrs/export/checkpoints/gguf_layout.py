"""Where the tensors of a GGUF file lie: sizes and places, checked against the file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from mrs.errors import CorruptCheckpointError, UnsupportedTensorTypeError
from mrs.export.checkpoints.checkpoint import MetadataValue, TensorInfo
from mrs.export.checkpoints.gguf_header import GgufHeader, TensorEntry, quoted
from mrs.export.checkpoints.placed_tensor import PlacedTensor

DEFAULT_ALIGNMENT = 32
MAX_ALIGNMENT = 1 << 20
_MAX_ELEMENTS = (1 << 63) - 1

# Types that ggml once had: their numbers are not used again.
_REMOVED_TYPES = {
    4: "Q4_2",
    5: "Q4_3",
    31: "Q4_0_4_4",
    32: "Q4_0_4_8",
    33: "Q4_0_8_8",
    36: "IQ4_NL_4_4",
    37: "IQ4_NL_4_8",
    38: "IQ4_NL_8_8",
}


def place_tensors(header: GgufHeader, file_size: int, file_name: str) -> dict[str, PlacedTensor]:
    """Find every tensor's bytes, in the order of the header.

    Args:
        header: the parsed header.
        file_size: bytes that the file has.
        file_name: what errors call it.

    Raises:
        CorruptCheckpointError: a shape, an offset or the alignment cannot be right, tensors
            overlap, or tensor data is missing from the end of the file.
        UnsupportedTensorTypeError: a tensor is of a type that mrs does not know.
    """
    alignment = _alignment(header.metadata, file_name)
    data_start = -(-header.end // alignment) * alignment
    placed = {
        entry.name: _place(entry, data_start, alignment, file_name) for entry in header.tensors
    }
    by_place = sorted(placed.values(), key=lambda tensor: (tensor.start, tensor.stop))
    _check_inside(by_place, file_size, file_name)
    _check_apart(by_place, file_name)
    return placed


def _alignment(metadata: Mapping[str, MetadataValue], file_name: str) -> int:
    value = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    is_int = isinstance(value, int) and not isinstance(value, bool)
    if not is_int or not 1 <= value <= MAX_ALIGNMENT or value & (value - 1):  # type: ignore[operator]
        raise _corrupt(
            file_name,
            f"general.alignment is {str(value)[:80]}, not a power of two up to {MAX_ALIGNMENT}",
        )
    return int(value)  # type: ignore[arg-type]


def _place(entry: TensorEntry, data_start: int, alignment: int, file_name: str) -> PlacedTensor:
    what = f"tensor {quoted(entry.name)}"
    shape = entry.dims[::-1]
    if 0 in shape or math.prod(shape) > _MAX_ELEMENTS:
        raise _corrupt(file_name, f"{what} has the impossible shape {list(shape)}")
    dtype, block_size, block_bytes = _storage_type(entry, file_name)
    if shape[-1] % block_size:
        raise _corrupt(
            file_name,
            f"{what} is stored as {dtype} in blocks of {block_size}, "
            f"but its rows have {shape[-1]} elements",
        )
    if entry.offset % alignment:
        raise _corrupt(
            file_name, f"{what} is at offset {entry.offset}, not a multiple of {alignment}"
        )
    return PlacedTensor(
        info=TensorInfo(entry.name, shape, dtype),
        start=data_start + entry.offset,
        rows=math.prod(shape[:-1]),
        row_bytes=shape[-1] // block_size * block_bytes,
    )


def _storage_type(entry: TensorEntry, file_name: str) -> tuple[str, int, int]:
    """Name, elements per block and bytes per block of a tensor's type."""
    try:
        quantization = GGMLQuantizationType(entry.type_number)
    except ValueError:
        removed = _REMOVED_TYPES.get(entry.type_number)
        raise UnsupportedTensorTypeError(
            f"{file_name}: tensor {quoted(entry.name)} has storage type {entry.type_number}, "
            + (f"the withdrawn {removed}." if removed else "which mrs does not know."),
            hint="Export a file of another quantization, such as Q4_K_M or Q8_0.",
        ) from None
    block_size, block_bytes = GGML_QUANT_SIZES[quantization]
    return quantization.name, block_size, block_bytes


def _check_inside(by_place: list[PlacedTensor], file_size: int, file_name: str) -> None:
    outside = next((tensor for tensor in by_place if tensor.stop > file_size), None)
    if outside is None:
        return
    missing = max(tensor.stop for tensor in by_place) - file_size
    raise CorruptCheckpointError(
        f"{file_name} is truncated: tensor {quoted(outside.info.name)} takes bytes "
        f"{outside.start} to {outside.stop}, but the file has {file_size} bytes "
        f"({missing} bytes are missing).",
        hint="The file is incomplete or damaged: download or copy it again.",
    )


def _check_apart(by_place: Iterable[PlacedTensor], file_name: str) -> None:
    previous: PlacedTensor | None = None
    for tensor in by_place:
        if previous is not None and tensor.start < previous.stop:
            first, second = quoted(previous.info.name), quoted(tensor.info.name)
            raise _corrupt(file_name, f"the tensors {first} and {second} overlap")
        previous = tensor


def _corrupt(file_name: str, message: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"{file_name}: {message}.",
        hint="The file is damaged or was made by a faulty tool: get another copy.",
    )
