"""The control groups (cgroup v2) that bound what this process may use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

MOUNT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def own_groups(mount: Path = MOUNT, membership: Path = MEMBERSHIP) -> Iterator[Path]:
    """Folders of the process's own group (a systemd service) and of all around it (a container).

    Args:
        mount: where the groups are mounted.
        membership: which group is this process's, as ``0::/path``.
    """
    yield mount
    try:
        lines = membership.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return
    own = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "/")
    path = PurePosixPath(own.lstrip("/"))
    # A path of dots leads out of what is mounted here.
    if ".." not in path.parts:
        yield from (mount / group for group in (path, *path.parents))
