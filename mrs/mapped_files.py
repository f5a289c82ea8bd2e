"""Pages of files that this process has mapped, such as weights that are read where they lie.

What has been read counts as memory of the process until the system needs it, and a container's
limit may count it too, though it is a clean copy of a file. Given back, it is mapped again when it
is read, from the page cache as long as it is there.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable
from pathlib import Path

_MADV_DONTNEED = 4
_SMAPS = Path("/proc/self/smaps")

Range = tuple[int, int]
"""Address and length."""


def clean_mappings(file: Path) -> list[Range]:
    """The mappings of a file in which nothing was written, as proc(5) describes them.

    None where the system does not tell. A page of a private mapping that was written is a copy of
    its own ("anonymous"), which would be lost.
    """
    if sys.platform != "linux":
        return []
    try:
        text = _SMAPS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return []
    wanted, found = str(file.resolve()), []
    mapping: Range | None = None
    for line in text.splitlines():
        first, _, rest = line.partition(" ")
        if not first.endswith(":"):
            path = rest.split(maxsplit=4)[4:]
            mapping = _range(first) if path == [wanted] else None
        elif mapping is not None and line.split() == ["Anonymous:", "0", "kB"]:
            found.append(mapping)
    return found


def give_back(ranges: Iterable[Range]) -> None:
    """Give the pages back. The mappings must exist: other memory would be emptied."""
    libc = ctypes.CDLL(None)
    for start, length in ranges:
        libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), _MADV_DONTNEED)


def _range(addresses: str) -> Range:
    start, end = (int(address, 16) for address in addresses.split("-"))
    return start, end - start
