"""How much memory this machine has to spare for this process."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path

from mrs.cgroups import MEMBERSHIP, MOUNT, own_groups

_MEMINFO = Path("/proc/meminfo")


def available_memory(
    meminfo: Path = _MEMINFO, cgroups: Path = MOUNT, membership: Path = MEMBERSHIP
) -> int | None:
    """Bytes that can be used without swapping, by the system and by the limits of the cgroups.

    Args:
        meminfo: what the system tells.
        cgroups: where the groups are mounted.
        membership: which group is this process's, as ``0::/path``.

    Returns:
        None if the system does not tell.
    """
    free = _available(meminfo)
    if free is None:
        return None
    rooms = [_room(group) for group in own_groups(cgroups, membership)]
    return max(0, min([free, *(room for room in rooms if room is not None)]))


def _available(meminfo: Path) -> int | None:
    try:
        for line in meminfo.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return None
    return None


def _room(group: Path) -> int | None:
    """What a group may take beyond what it has; None where it has no limit."""
    try:
        limit = int((group / "memory.max").read_text(encoding="ascii"))
        used = int((group / "memory.current").read_text(encoding="ascii"))
        return limit - used + _reclaimable(group)
    except (OSError, ValueError):  # "max", among others.
        return None


def _reclaimable(group: Path) -> int:
    """Files in memory that are let go as soon as somebody needs the room."""
    for line in (group / "memory.stat").read_text(encoding="ascii").splitlines():
        key, _, value = line.partition(" ")
        if key == "inactive_file":
            return int(value)
    return 0


def give_memory_back() -> None:
    """Give the system what large objects that have just been let go of still occupy.

    Some of them are in circles, which Python looks for now and then, and the C library keeps pages
    for later. Takes up to tenths of a second.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # Of glibc alone.
    if trim is not None:
        trim(0)
