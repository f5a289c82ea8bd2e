"""How much memory this machine has to spare."""

from __future__ import annotations

from pathlib import Path

_MEMINFO = Path("/proc/meminfo")


def available_memory(meminfo: Path = _MEMINFO) -> int | None:
    """Bytes that can be used without swapping; None if the system does not tell."""
    try:
        for line in meminfo.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return None
    return None
