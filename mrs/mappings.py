"""The memory of this process, mapping by mapping, and pages that it can do without.

Pages of files that were read where they lie, such as weights, count as memory of the process until
the system needs them, and a container's limit may count them too, though they are clean copies of a
file. Given back, they are mapped again when they are read, from the page cache as long as they are
there.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

_MADV_DONTNEED = 4
_SMAPS = Path("/proc/self/smaps")


@dataclass
class Mapping:
    """A mapping of this process, as ``/proc/self/smaps`` describes it (proc(5)).

    Attributes:
        start: first address.
        end: address after the last.
        permissions: such as ``rw-p``.
        inode: 0 for anonymous memory.
        path: of the file, if it is one.
        kilobytes: sizes by name (``Rss``, ``AnonHugePages``, ...).
        flags: two-letter flags of the kernel.
    """

    start: int
    end: int
    permissions: str
    inode: int
    path: str = ""
    kilobytes: dict[str, int] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        """Bytes of address space."""
        return self.end - self.start


def read_mappings(smaps: Path = _SMAPS) -> Iterator[Mapping]:
    """The mappings of this process.

    Raises:
        OSError: the kernel does not tell.
    """
    mapping: Mapping | None = None
    for line in smaps.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        key, _, rest = line.partition(" ")
        if not key.endswith(":"):
            if mapping is not None:
                yield mapping
            mapping = _parse_header(key, rest)
        elif mapping is not None and key == "VmFlags:":
            mapping.flags = frozenset(rest.split())
        elif mapping is not None and rest.endswith("kB"):
            mapping.kilobytes[key[:-1]] = int(rest[:-2])
    if mapping is not None:
        yield mapping


def _parse_header(addresses: str, rest: str) -> Mapping:
    start, end = (int(address, 16) for address in addresses.split("-"))
    permissions, _, _, inode, *path = rest.split(maxsplit=4)
    return Mapping(start, end, permissions, int(inode), "".join(path))


def clean_mappings(*files: Path) -> list[Mapping]:
    """The mappings of files in which nothing was written; none where the system does not tell.

    A page of a private mapping that was written is a copy of its own ("anonymous"), which would be
    lost if it were given back.
    """
    wanted = {str(file.resolve()) for file in files}
    try:
        mappings = list(read_mappings())
    except OSError:
        return []
    return [
        mapping
        for mapping in mappings
        if mapping.path in wanted and mapping.kilobytes.get("Anonymous") == 0
    ]


def give_back(mappings: Iterable[Mapping]) -> None:
    """Give the pages of mappings back. These must exist: other memory would be emptied."""
    libc = ctypes.CDLL(None)
    for mapping in mappings:
        libc.madvise(ctypes.c_void_p(mapping.start), ctypes.c_size_t(mapping.size), _MADV_DONTNEED)
