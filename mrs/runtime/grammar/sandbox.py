"""Runs `trial.py` and talks to it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mrs.runtime.grammar.errors import GrammarBusyError, InvalidGrammarError

_PROGRAM = Path(__file__).with_name("trial.py")
_START_SECONDS = 30.0


class Sandbox:
    """A process of its own in which grammars are tried before they come in here.

    It is started when it is needed. For one thread at a time; any may `close` it.

    Args:
        setup: its first request, see `trial.py`.
        seconds: how long a trial may take.
    """

    def __init__(self, setup: Mapping[str, Any], *, seconds: float) -> None:
        self._setup = dict(setup)
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def try_out(self, grammar: str) -> str | None:
        """Compile a grammar; returns what is wrong with it, or None.

        Raises:
            InvalidGrammarError: it takes more time or memory than is allowed.
            GrammarBusyError: no process can be started, or it was closed.
        """
        error: str | None = self._exchange(self._started(), grammar)["error"]
        return error

    def close(self) -> None:
        """End the process. Idempotent; a trial that runs ends with an error."""
        self._closed = True
        process = self._process
        if process is not None:
            self._kill(process)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._closed:
            raise GrammarBusyError("The model is being unloaded.", hint="Try again.")
        if self._process is None or self._process.poll() is not None:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", str(_PROGRAM)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    # Ctrl-C is the server's; this process ends with its input.
                    start_new_session=True,
                )
                # An empty grammar is answered as soon as the process is ready.
                _write(self._process, self._setup)
                _write(self._process, "")
                _read(self._process, time.monotonic() + _START_SECONDS)
            except (OSError, _EndedError, TimeoutError) as error:
                if self._process is not None:
                    self._kill(self._process)
                raise GrammarBusyError(
                    f"The process that compiles grammars cannot be started: {error}."
                ) from error
        return self._process

    def _exchange(self, process: subprocess.Popen[bytes], grammar: str) -> Any:
        try:
            _write(process, grammar)
            return _read(process, time.monotonic() + self._seconds)
        except TimeoutError:
            self._kill(process)
            raise InvalidGrammarError(
                f"The grammar takes more than {self._seconds:g} seconds to compile.",
                hint="Make it simpler: fewer alternatives, smaller counts and divisors.",
            ) from None
        except (OSError, _EndedError) as error:
            self._kill(process)
            if self._closed:
                raise GrammarBusyError("The model is being unloaded.", hint="Try again.") from error
            raise InvalidGrammarError(
                "The grammar is too complex: its compiler ran out of memory or stack.",
                hint="Make it simpler: fewer references, alternatives and levels.",
            ) from error

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        if self._process is process:
            self._process = None


class _EndedError(Exception):
    """The process has ended."""


def _write(process: subprocess.Popen[bytes], value: Any) -> None:
    assert process.stdin is not None
    data = json.dumps(value).encode()
    process.stdin.write(struct.pack(">I", len(data)) + data)
    process.stdin.flush()


def _read(process: subprocess.Popen[bytes], deadline: float) -> Any:
    (length,) = struct.unpack(">I", _read_bytes(process, 4, deadline))
    return json.loads(_read_bytes(process, length, deadline))


def _read_bytes(process: subprocess.Popen[bytes], count: int, deadline: float) -> bytes:
    assert process.stdout is not None
    file = process.stdout.fileno()
    data = b""
    while len(data) < count:
        ready, _, _ = select.select([file], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError("no reply in time")
        part = os.read(file, count - len(data))
        if not part:
            raise _EndedError("it has ended")
        data += part
    return data
