"""Whether the float32 graph of a checkpoint fits this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

from mrs.memory import available_memory

# Beyond this, writing and running the reference takes minutes: that is to be asked for.
MOST_PARAMETERS = 2_000_000_000
_BYTES_PER_PARAMETER = 4
# Graph, tables and what the file system takes for itself.
_OVERHEAD = 1.05


def obstacle(parameters: int, folder: Path) -> str | None:
    """Why the float32 graph should not be made, or None if nothing speaks against it.

    The reasons name no figures of this machine, since they are recorded.

    Args:
        parameters: weights of the checkpoint.
        folder: where the graph would be written.
    """
    size = int(parameters * _BYTES_PER_PARAMETER * _OVERHEAD)
    if parameters > MOST_PARAMETERS:
        return "the model has more than 2 billion parameters"
    if shutil.disk_usage(folder).free < size:
        return "the disk has no room for the float32 graph"
    memory = available_memory()
    if memory is not None and memory < size:
        return "the float32 graph does not fit the free memory"
    return None
