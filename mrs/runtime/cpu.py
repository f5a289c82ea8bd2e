"""How many processors this process may really use."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUP_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def usable_cpus(quota_file: Path = _CGROUP_QUOTA) -> int:
    """Processors in the affinity mask, cut down to the cgroup's CPU quota; at least 1.

    ONNX Runtime looks at neither: with a quota of 2 on a 64-core host it would start 64 threads.

    Args:
        quota_file: cgroup v2 ``cpu.max``: ``"<quota> <period>"`` in microseconds, or ``"max ..."``.
    """
    available = len(os.sched_getaffinity(0))
    try:
        quota, period = quota_file.read_text(encoding="ascii").split()[:2]
        limit = int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return available
    return max(1, min(available, int(limit)))
