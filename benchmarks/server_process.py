"""A server of one version, for as long as a benchmark needs it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[str]:
    """Start ``mrs serve`` and wait until it is ready; gives its URL, and stops it at the end."""
    server = subprocess.Popen(
        [sys.executable, "-m", "mrs", "serve", str(folder), "--port", "0", "--json",
         "--responses-db", ":memory:", *options],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        yield json.loads(server.stdout.readline())["url"]
    finally:
        server.terminate()
        server.wait()
