"""Where the stored responses lie."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)

IN_MEMORY = Path(":memory:")


def responses_file(asked: Path | None) -> Path | None:
    """The file of the stored responses; None for memory.

    Args:
        asked: by the user; ``:memory:`` is no file. None for ``mrs/responses.db`` in the user's
            data folder, or for memory if nothing can be written there.
    """
    if asked == IN_MEMORY:
        return None
    if asked is not None:
        return asked.expanduser()
    import platformdirs  # Here, so that naming a file does not need it.

    folder = platformdirs.user_data_path("mrs")
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    if os.access(folder, os.W_OK):
        return folder / "responses.db"
    logger.warning("%s cannot be written: responses are kept in memory.", folder)
    return None
