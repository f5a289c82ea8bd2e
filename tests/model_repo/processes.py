"""Running a function in a process of its own, and killing it at a chosen system call."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

# What Python reports to audit hooks just before it changes a file system.
_STEPS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "fcntl.flock"}


def survives(action: Callable[[], object], root: Path, step: int) -> bool:
    """Run ``action`` in a child that is killed (-9) before its ``step``-th access to ``root``.

    Returns whether the child came to its end without reaching that step.
    """
    child = os.fork()
    if child == 0:  # pragma: no cover
        _run_and_exit(action, root, step)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return False
    assert os.waitstatus_to_exitcode(status) == 0, "the child failed"
    return True


def _run_and_exit(action: Callable[[], object], root: Path, step: int) -> None:
    code = 1
    try:
        _kill_at(root, step)
        action()
        code = 0
    finally:
        os._exit(code)


def _kill_at(root: Path, step: int) -> None:
    left = step

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if event not in _STEPS:
            return
        if event == "fcntl.flock" or str(root) in str(arguments[0]):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
