"""The header of a GGUF file: metadata and tensor entries, parsed as hostile input.

Nothing is allocated on the word of the file: every length is compared with the bytes that are
there before it is used. Layout: the GGUF specification, versions 2 and 3, little-endian
(https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from mmap import mmap

import numpy as np

from mrs.errors import CheckpointError, CorruptCheckpointError
from mrs.export.checkpoints.checkpoint import MetadataValue
from mrs.export.checkpoints.file_kind import HEAD_BYTES, describe_file_kind
from mrs.export.checkpoints.gguf_arrays import LazyMetadata, NumberArray, StringArray

MAGIC = b"GGUF"
SUPPORTED_VERSIONS = (2, 3)

MAX_METADATA_ENTRIES = 1 << 16
_FEW_TENSORS = 1 << 15
_BYTES_PER_TENSOR = 512
MAX_NAME_BYTES = (1 << 16) - 1
MAX_STRING_BYTES = 64_000_000
_MANY_ELEMENTS = 3 << 19
_BYTES_PER_ELEMENT = 64

LENIENT_STRING_KEYS = frozenset({"tokenizer.ggml.tokens", "tokenizer.ggml.merges"})
"""Arrays whose strings may hold bytes that are not UTF-8.

Real vocabularies do. Such bytes become lone surrogates (`surrogateescape`), so that different
tokens stay different and ``text.encode("utf-8", "surrogateescape")`` gives the bytes back.
"""

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_BOOL, _STRING, _ARRAY = 7, 8, 9
# GGUF value type -> numpy dtype of one element.
_NUMBERS: dict[int, np.dtype[np.generic]] = {
    number: np.dtype(name)
    for number, name in (
        (0, "u1"),
        (1, "i1"),
        (2, "<u2"),
        (3, "<i2"),
        (4, "<u4"),
        (5, "<i4"),
        (6, "<f4"),
        (_BOOL, "u1"),
        (10, "<u8"),
        (11, "<i8"),
        (12, "<f8"),
    )
}


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor as the header states it, unchecked but for its name and number of dimensions.

    Attributes:
        name: GGUF name.
        dims: sizes in GGUF's order, innermost first.
        type_number: ggml type.
        offset: bytes from the start of the tensor data.
    """

    name: str
    dims: tuple[int, ...]
    type_number: int
    offset: int


@dataclass(frozen=True)
class GgufHeader:
    """A parsed header.

    Attributes:
        version: 2 or 3.
        metadata: values by key, in the order of the file.
        tensors: entries in the order of the file.
        end: the first byte after the header.
    """

    version: int
    metadata: LazyMetadata
    tensors: tuple[TensorEntry, ...]
    end: int


def parse_header(data: mmap, file_name: str) -> GgufHeader:
    """Parse the header of a mapped file.

    Args:
        data: the whole file.
        file_name: what errors call it.

    Raises:
        CorruptCheckpointError: the file is no GGUF file, is truncated, or its header lies.
        CheckpointError: the file is of a version or byte order that mrs does not read.
    """
    cursor = _Cursor(data, file_name)
    version = _read_version(cursor)
    tensor_count = _read_count(cursor, "tensors", most_tensors(cursor.size))
    metadata_count = _read_count(cursor, "metadata entries", MAX_METADATA_ENTRIES)
    metadata = _read_metadata(cursor, metadata_count)
    tensors = _read_tensor_entries(cursor, tensor_count)
    return GgufHeader(version, metadata, tensors, cursor.position)


def most_tensors(file_size: int) -> int:
    """How many tensors a file may describe.

    Each takes several hundred bytes of memory, so there may be more than a few only where the
    file is large. In real models they have hundreds of kilobytes on average.
    """
    return _FEW_TENSORS + file_size // _BYTES_PER_TENSOR


def most_elements(file_size: int) -> int:
    """How many elements the arrays of a file may have together.

    The largest vocabularies, with scores, types and merges, have 1.3 million. As Python objects,
    which they become if they are asked for, each takes 8 to 70 bytes.
    """
    return _MANY_ELEMENTS + min(file_size // _BYTES_PER_ELEMENT, _MANY_ELEMENTS)


def quoted(name: str) -> str:
    """A name from the file as an error may show it: escaped, and not longer than a line."""
    return repr(name if len(name) <= 80 else name[:77] + "...")


class _Cursor:
    """Reads forward through a mapped file and never past its end."""

    def __init__(self, data: mmap, file_name: str) -> None:
        self.data = data
        self.size = len(data)
        self.file_name = file_name
        self.position = 0
        self.elements_left = most_elements(self.size)

    def corrupt(self, message: str) -> CorruptCheckpointError:
        """Make the error for a header that cannot be right."""
        return CorruptCheckpointError(
            f"{self.file_name}: {message}.",
            hint="The file is damaged or was made by a faulty tool: get another copy.",
        )

    def need(self, count: int, what: str) -> None:
        """Check that ``count`` more bytes are there for ``what``."""
        missing = self.position + count - self.size
        if missing > 0:
            raise CorruptCheckpointError(
                f"{self.file_name} is truncated: {what} at byte {self.position} takes {count} "
                f"bytes, and {missing} of them are missing.",
                hint="The file is incomplete or damaged: download or copy it again.",
            )

    def u32(self, what: str) -> int:
        """Read an unsigned 32-bit integer."""
        self.need(4, what)
        (value,) = _U32.unpack_from(self.data, self.position)
        self.position += 4
        return int(value)

    def u64(self, what: str) -> int:
        """Read an unsigned 64-bit integer."""
        self.need(8, what)
        (value,) = _U64.unpack_from(self.data, self.position)
        self.position += 8
        return int(value)

    def string(self, what: str, limit: int) -> str:
        """Read a length and that many bytes of UTF-8, at most ``limit``."""
        length = self.u64(f"the length of {what}")
        start = self.position
        self.need(length, what)
        if length > limit:
            raise self.corrupt(f"{what} at byte {start} has {length} bytes, more than {limit}")
        self.position += length
        try:
            return self.data[start : self.position].decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.corrupt(f"{what} is not UTF-8 at byte {start + error.start}") from None


def _read_version(cursor: _Cursor) -> int:
    head = cursor.data[:HEAD_BYTES]
    if not head.startswith(MAGIC):
        kind, hint = describe_file_kind(head)
        raise CorruptCheckpointError(
            f"{cursor.file_name} is not a GGUF file: it is {kind}.", hint=hint
        )
    cursor.position = len(MAGIC)
    version = cursor.u32("the GGUF version")
    if version in SUPPORTED_VERSIONS:
        return version
    if version != 0 and version & 0xFFFF == 0:
        raise CheckpointError(
            f"{cursor.file_name} is a big-endian GGUF file, and mrs reads little-endian ones.",
            hint="Convert it with `gguf-convert-endian`, which is in the gguf package.",
        )
    raise CheckpointError(
        f"{cursor.file_name} is of GGUF version {version}, and mrs reads versions 2 and 3.",
        hint="Convert the model to GGUF again with a current converter."
        if version < 2
        else "Update mrs, or check that the file is undamaged.",
    )


def _read_count(cursor: _Cursor, what: str, limit: int) -> int:
    count = cursor.u64(f"the number of {what}")
    if count > limit:
        raise cursor.corrupt(f"the header claims {count} {what}, more than {limit}")
    return count


# --- metadata ------------------------------------------------------------------------------------


def _read_metadata(cursor: _Cursor, count: int) -> LazyMetadata:
    metadata = LazyMetadata()
    for index in range(count):
        key = cursor.string(f"the key of metadata entry {index}", MAX_NAME_BYTES)
        if key in metadata:
            raise cursor.corrupt(f"the metadata key {quoted(key)} occurs twice")
        metadata.add(key, _read_value(cursor, key))
    return metadata


def _read_value(cursor: _Cursor, key: str) -> MetadataValue | NumberArray | StringArray:
    what = f"the value of {quoted(key)}"
    value_type = cursor.u32(f"the type of {quoted(key)}")
    if value_type == _STRING:
        return cursor.string(what, MAX_STRING_BYTES)
    if value_type == _ARRAY:
        return _read_array(cursor, key)
    dtype = _NUMBERS.get(value_type)
    if dtype is None:
        raise cursor.corrupt(f"{what} has type {value_type}, which GGUF does not define")
    return _read_numbers(cursor, what, value_type, dtype, 1).decode()[0]


def _read_array(cursor: _Cursor, key: str) -> NumberArray | StringArray:
    what = f"the array {quoted(key)}"
    element_type = cursor.u32(f"the element type of {what}")
    count = cursor.u64(f"the length of {what}")
    if element_type == _ARRAY:
        raise cursor.corrupt(f"{what} holds arrays, which no model needs")
    dtype = _NUMBERS.get(element_type)
    if dtype is None and element_type != _STRING:
        raise cursor.corrupt(f"{what} has elements of type {element_type}, unknown to GGUF")
    cursor.need(count * (dtype.itemsize if dtype is not None else _U64.size), what)
    if count > cursor.elements_left:
        most = most_elements(cursor.size)
        raise cursor.corrupt(f"{what} takes the metadata over {most} array elements")
    cursor.elements_left -= count
    if dtype is not None:
        return _read_numbers(cursor, what, element_type, dtype, count)
    return _read_strings(cursor, what, count, lenient=key in LENIENT_STRING_KEYS)


def _read_numbers(
    cursor: _Cursor, what: str, value_type: int, dtype: np.dtype[np.generic], count: int
) -> NumberArray:
    cursor.need(count * dtype.itemsize, what)
    # A slice of a map is a copy: an array on the map itself would keep it from being closed.
    values = np.frombuffer(
        cursor.data[cursor.position : cursor.position + count * dtype.itemsize], dtype
    )
    if value_type == _BOOL:
        if count and int(values.max()) > 1:
            raise cursor.corrupt(f"{what} at byte {cursor.position} is boolean but not 0 or 1")
        values = values.astype(np.bool_)
    cursor.position += count * dtype.itemsize
    return NumberArray(values)


def _read_strings(cursor: _Cursor, what: str, count: int, *, lenient: bool) -> StringArray:
    """Walk over ``count`` strings. A vocabulary has 10^5 of them: the loop is kept tight."""
    data, size = cursor.data, cursor.size
    begin = position = cursor.position
    unpack = _U64.unpack_from
    for index in range(count):
        start = position + 8
        stop = start + unpack(data, position)[0] if start <= size else size + 1
        if (
            stop > size
            or stop - start > MAX_STRING_BYTES
            or not (lenient or _is_utf8(data[start:stop]))
        ):
            # The slow reader finds the same fault again, and knows how to say it.
            cursor.position = position
            cursor.string(f"element {index} of {what}", MAX_STRING_BYTES)
        position = stop
    cursor.position = position
    return StringArray(data[begin:position], count, "surrogateescape" if lenient else "strict")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


# --- tensor entries ------------------------------------------------------------------------------

MAX_DIMS = 4


def _read_tensor_entries(cursor: _Cursor, count: int) -> tuple[TensorEntry, ...]:
    entries: dict[str, TensorEntry] = {}
    for index in range(count):
        entry = _read_tensor_entry(cursor, index)
        if entry.name in entries:
            raise cursor.corrupt(f"the tensor {quoted(entry.name)} occurs twice")
        entries[entry.name] = entry
    return tuple(entries.values())


def _read_tensor_entry(cursor: _Cursor, index: int) -> TensorEntry:
    name = cursor.string(f"the name of tensor {index}", MAX_NAME_BYTES)
    if not name:
        raise cursor.corrupt(f"tensor {index} has no name")
    what = f"tensor {quoted(name)}"
    dim_count = cursor.u32(f"the number of dimensions of {what}")
    if not 1 <= dim_count <= MAX_DIMS:
        raise cursor.corrupt(f"{what} has {dim_count} dimensions, not 1 to {MAX_DIMS}")
    dims = tuple(cursor.u64(f"the shape of {what}") for _ in range(dim_count))
    type_number = cursor.u32(f"the type of {what}")
    return TensorEntry(name, dims, type_number, cursor.u64(f"the offset of {what}"))
