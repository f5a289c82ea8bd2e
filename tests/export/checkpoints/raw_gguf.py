"""GGUF bytes put together by hand, so that a test can state any lie."""

from __future__ import annotations

import struct
from collections.abc import Sequence

UINT8, UINT32, INT32, BOOL, STRING, ARRAY = 0, 4, 5, 7, 8, 9
F32, Q8_0 = 0, 8


def string(text: bytes | str, *, claim: int | None = None) -> bytes:
    """A length and the bytes; ``claim`` replaces the true length."""
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data) if claim is None else claim) + data


def entry(key: bytes | str, value_type: int, value: bytes) -> bytes:
    """A metadata entry."""
    return string(key) + struct.pack("<I", value_type) + value


def uint32(key: str, value: int) -> bytes:
    """A metadata entry that holds a UINT32."""
    return entry(key, UINT32, struct.pack("<I", value))


def array(key: str, element_type: int, count: int, elements: bytes) -> bytes:
    """A metadata entry that holds an array; ``count`` may disagree with ``elements``."""
    return entry(key, ARRAY, struct.pack("<IQ", element_type, count) + elements)


def tensor(
    name: bytes | str, dims: Sequence[int], type_number: int = F32, offset: int = 0
) -> bytes:
    """A tensor entry; ``dims`` innermost first, as in the file."""
    return string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, type_number, offset)


ARCHITECTURE = entry("general.architecture", STRING, string("llama"))


def gguf_bytes(
    metadata: Sequence[bytes] = (ARCHITECTURE,),
    tensors: Sequence[bytes] = (),
    *,
    version: int = 3,
    metadata_count: int | None = None,
    tensor_count: int | None = None,
    alignment: int = 32,
    data: bytes = b"",
) -> bytes:
    """A file; the counts default to the truth, ``data`` follows the padded header."""
    header = b"GGUF" + struct.pack(
        "<IQQ",
        version,
        len(tensors) if tensor_count is None else tensor_count,
        len(metadata) if metadata_count is None else metadata_count,
    )
    header += b"".join(metadata) + b"".join(tensors)
    return header + bytes(-len(header) % alignment) + data
