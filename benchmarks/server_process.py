"""A server of one version, for as long as a benchmark needs it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ServerProcess:
    """A server that is ready.

    Attributes:
        url: where it listens.
        pid: of its process.
    """

    url: str
    pid: int


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[ServerProcess]:
    """Start ``mrs serve`` and wait until it is ready; stop it at the end."""
    server = subprocess.Popen(
        [sys.executable, "-m", "mrs", "serve", str(folder), "--port", "0", "--json",
         "--responses-db", ":memory:", *options],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        yield ServerProcess(json.loads(server.stdout.readline())["url"], server.pid)
    finally:
        server.terminate()
        server.wait()
