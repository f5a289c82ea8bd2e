"""Small Hugging Face folders."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from mrs.export.tokenizers.token_types import TokenType


def write_json(folder: Path, **files: Any) -> Path:
    """Write each value to the file of its name (``tokenizer_config`` and so on)."""
    for name, value in files.items():
        (folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    return folder


def sentence_piece_file(
    tokens: list[str],
    scores: list[float],
    types: list[TokenType],
    *,
    trainer: dict[int, int] | None = None,
    normalizer: dict[int, int | bytes] | None = None,
) -> bytes:
    """A ``tokenizer.model``, written as protocol buffers are."""
    pieces = (
        field(1, field(1, token.encode()) + fixed32(2, score) + field(3, int(kind)))
        for token, score, kind in zip(tokens, scores, types, strict=True)
    )
    trainer_spec = b"".join(field(number, value) for number, value in (trainer or {}).items())
    normal = b"".join(field(number, value) for number, value in (normalizer or {}).items())
    return b"".join(pieces) + field(2, trainer_spec) + field(3, normal)


def field(number: int, value: int | bytes) -> bytes:
    """A number or a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value % (1 << 64))
    return varint(number << 3 | 2) + varint(len(value)) + value


def fixed32(number: int, value: float) -> bytes:
    """A float."""
    return varint(number << 3 | 5) + struct.pack("<f", value)


def varint(value: int) -> bytes:
    """A number in groups of seven bits, the least first."""
    groups = bytearray()
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])
