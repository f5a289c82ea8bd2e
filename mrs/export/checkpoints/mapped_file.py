"""A file that is mapped into memory and read by rows."""

from __future__ import annotations

import contextlib
import mmap
import stat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mrs.errors import CorruptCheckpointError, SourceNotFoundError, StorageError, UsageError
from mrs.export.checkpoints.file_kind import describe_file_kind

# Bytes that are handed out before pages are given back.
_KEPT_BYTES = 64 << 20


class MappedFile:
    """A file in memory, as far as it is touched.

    What was read is given back every now and then. The system could have it back at any time, but
    until it takes it, it counts as memory of this process, and a container's limit may count it.
    A view keeps its values: touched again, a page comes from the file again.

    Args:
        path: the file; links are followed.
        suffix: what hints say that its name should end with.

    Attributes:
        path: the file.
        data: its bytes. Slices are copies.
        size: how many there were when it was opened.

    Raises:
        CorruptCheckpointError: the file is empty.
        SourceNotFoundError, UsageError, StorageError: there is no such file, it is a folder or
            a device, or it cannot be read.
    """

    def __init__(self, path: Path, suffix: str = ".gguf") -> None:
        self.path = path
        self.data = _map(path, suffix)
        self.size = len(self.data)
        self._handed_out = 0

    def rows(self, start: int, count: int, row_bytes: int) -> NDArray[np.uint8]:
        """View ``count`` rows from byte ``start`` as read-only uint8 ``[count, row_bytes]``.

        Raises:
            CorruptCheckpointError: the file has become shorter since it was opened.
            ValueError: the file is closed, or has no such bytes.
        """
        self._check_not_shrunk()
        if count * row_bytes == 0:
            return np.empty((count, row_bytes), np.uint8)
        self._handed_out += count * row_bytes
        if self._handed_out > _KEPT_BYTES:
            self._handed_out = 0
            self._give_back()
        view = np.frombuffer(self.data, np.uint8, count * row_bytes, start)
        return view.reshape(count, row_bytes)

    def _give_back(self) -> None:
        if hasattr(mmap, "MADV_DONTNEED"):
            self.data.madvise(mmap.MADV_DONTNEED)

    def _check_not_shrunk(self) -> None:
        """Touching a mapped page beyond the end of its file would kill the process."""
        size = self.data.size()
        if size < self.size:
            raise CorruptCheckpointError(
                f"{self.path.name} has shrunk from {self.size} to {size} bytes since it was "
                "opened.",
                hint="Something else writes to the file: wait until it is done and start again.",
            )

    def close(self) -> None:
        """Unmap the file; where views on it are alive, the last of them unmaps it."""
        with contextlib.suppress(BufferError):
            self.data.close()


def _map(path: Path, suffix: str) -> mmap.mmap:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{path} is not a regular file.", hint=f"Name a {suffix} file.")
        if status.st_size == 0:
            kind, hint = describe_file_kind(b"")
            raise CorruptCheckpointError(f"{path.name} is {kind}.", hint=hint)
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (FileNotFoundError, NotADirectoryError):
        raise SourceNotFoundError(
            f"There is no file {path}.", hint=f"Check the path to the {suffix} file."
        ) from None
    except (OSError, ValueError) as error:
        raise StorageError(
            f"Cannot read {path}: {getattr(error, 'strerror', None) or error}.",
            hint="Check the file's permissions.",
        ) from None
