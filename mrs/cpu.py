"""How many processors this process may really use."""

from __future__ import annotations

import os
from pathlib import Path

from mrs.cgroups import MEMBERSHIP, MOUNT, own_groups


def usable_cpus(cgroups: Path = MOUNT, membership: Path = MEMBERSHIP) -> int:
    """Processors in the affinity mask, cut down to the CPU quotas of the cgroups; at least 1.

    ONNX Runtime looks at neither: with a quota of 2 on a 64-core host it would start 64 threads.
    Quotas are those of cgroup v2: of the process's own group (a systemd service) and all groups
    around it (a container).

    Args:
        cgroups: where the groups are mounted.
        membership: which group is this process's, as ``0::/path``.
    """
    limits = [_quota(folder / "cpu.max") for folder in own_groups(cgroups, membership)]
    cpus = [int(limit) for limit in limits if limit is not None]
    return max(1, min([len(os.sched_getaffinity(0)), *cpus]))


def _quota(file: Path) -> float | None:
    """Processors' worth of time, from ``"<quota> <period>"`` in microseconds or ``"max ..."``."""
    try:
        quota, period = file.read_text(encoding="ascii").split()[:2]
        return int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None
