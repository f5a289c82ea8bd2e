"""Files of a tokenizer that are read as a whole, and may be hostile."""

from __future__ import annotations

import stat
from pathlib import Path

from mrs.errors import CorruptCheckpointError, StorageError

MAX_VOCABULARY_BYTES = 128 << 20
"""The largest vocabularies of today have 35 MB."""


def read_bytes(path: Path, limit: int) -> bytes:
    """All of a file of at most ``limit`` bytes.

    Raises:
        CorruptCheckpointError: it is larger, or no regular file.
        StorageError: it cannot be read.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise CorruptCheckpointError(f"{path.name} is no regular file.")
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except (OSError, ValueError) as error:
        raise StorageError(
            f"Cannot read {path}: {getattr(error, 'strerror', None) or error}.",
            hint="Check that the file exists, and its permissions.",
        ) from None
    if len(data) > limit:
        raise CorruptCheckpointError(f"{path.name} has more than {limit} bytes.")
    return data


def read_text(path: Path, limit: int) -> str:
    """All of a UTF-8 file of at most ``limit`` bytes, its line ends made ``\\n``.

    Raises:
        CorruptCheckpointError: as `read_bytes`, or it is not UTF-8.
        StorageError: it cannot be read.
    """
    data = read_bytes(path, limit)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CorruptCheckpointError(f"{path.name} is not UTF-8 at byte {error.start}.") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")
