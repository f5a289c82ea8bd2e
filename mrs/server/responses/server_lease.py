"""Which of the servers that share a store are alive.

Each holds the lock of a file of its own for as long as it lives. The system gives the lock back
however the process ends, so that a lock which can be taken belongs to nobody any more.
"""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

_YOUNG = 60.0


class ServerLease:
    """This server's sign of life, and a look at those of others.

    Args:
        folder: where the signs lie; made if it is not there. None for a store that nobody shares.
    """

    def __init__(self, folder: Path | None) -> None:
        self.name = uuid.uuid4().hex
        self._folder = folder
        self._lock = self._file(self.name)
        if self._lock is not None:
            self._lock.acquire(timeout=0)

    def lives(self, name: str) -> bool:
        """Whether the server called ``name`` runs."""
        if name == self.name:
            return True
        lock = self._file(name)
        if lock is None:
            return False
        try:
            with lock.acquire(timeout=0):
                self._remove(name)
        except Timeout:
            return True
        return False

    def sweep(self) -> None:
        """Remove the signs of servers that have ended without a word.

        A young one may be of a server that is about to take its lock.
        """
        if self._folder is None:
            return
        for path in self._folder.glob("*.lock"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _YOUNG:
                    self.lives(path.stem)

    def release(self) -> None:
        """Say that this server has ended."""
        if self._lock is not None:
            self._remove(self.name)
            self._lock.release()

    def _file(self, name: str) -> FileLock | None:
        if self._folder is None:
            return None
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return FileLock(self._folder / f"{name}.lock")

    def _remove(self, name: str) -> None:
        assert self._folder is not None
        with suppress(OSError):
            (self._folder / f"{name}.lock").unlink()
