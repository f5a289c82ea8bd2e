"""Keeps a memory-mapped weight file from piling up in this process while a graph runs.

Each step of the float32 reference reads all of its weights: several times the artifact. They are
clean pages of a file, which the system can take back, but until it does they count as memory of
this process, and a container's limit may count them too. So they are unmapped while the graph
runs; what is read again comes from the page cache. Measured on SmolLM2: 0.5 GB less, no slower.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MADV_DONTNEED = 4
_INTERVAL_SECONDS = 0.02
_MAPS = Path("/proc/self/maps")


@contextmanager
def lean_mapping(file: Path) -> Iterator[None]:
    """Give back the pages of ``file``'s mappings again and again, for as long as this lasts.

    The mappings must exist before and last longer: an address that was given to other memory
    meanwhile would be emptied. Where the system cannot do it, nothing happens.
    """
    ranges = list(_mappings(file)) if sys.platform == "linux" else []
    if not ranges:
        yield
        return
    done = threading.Event()
    worker = threading.Thread(target=_give_back, args=(ranges, done), daemon=True)
    worker.start()
    try:
        yield
    finally:
        done.set()
        worker.join()


def _mappings(file: Path) -> Iterator[tuple[int, int]]:
    """Address and length of each mapping of a file, as proc(5) describes them."""
    wanted = str(file.resolve())
    try:
        lines = _MAPS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5] == wanted:
            start, end = (int(address, 16) for address in fields[0].split("-"))
            yield start, end - start


def _give_back(ranges: list[tuple[int, int]], done: threading.Event) -> None:
    libc = ctypes.CDLL(None)
    while not done.wait(_INTERVAL_SECONDS):
        for start, length in ranges:
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), _MADV_DONTNEED)
