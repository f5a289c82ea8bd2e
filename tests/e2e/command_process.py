"""`mrs` commands in processes of their own, with what they said and the memory they took.

Importing what an export needs takes a second, and the tests run dozens of commands. So `Commands`
keeps one process that has imported it and forks a child for each command line; the child is a
process like any other, with its own exit code, output, limits and peak memory.

Run as a program, this module is that process: it reads requests from stdin, one JSON document a
line, and answers each with a line.
"""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

# Far beyond what any command of the tests takes: SIGALRM then ends it with a negative exit code.
_PATIENCE_SECONDS = 120


@dataclass(frozen=True)
class Finished:
    """What a command came to.

    Attributes:
        code: exit code; negative: killed by that signal.
        out: stdout.
        err: stderr.
        peak: the most memory that was resident at once, in bytes.
    """

    code: int
    out: str
    err: str
    peak: int

    @property
    def json(self) -> Any:
        """Stdout as the one JSON document that it must be."""
        return json.loads(self.out)


class Commands:
    """Runs `mrs` command lines; to be closed."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._process = subprocess.Popen(
            [*without_root_powers(), sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def mrs(self, *arguments: str | Path, largest_file: int | None = None) -> Finished:
        """Run ``mrs ARGUMENTS``; no file may grow beyond ``largest_file`` bytes, if given."""
        (finished,) = self.at_once([arguments], largest_file)
        return finished

    def at_once(
        self, commands: Sequence[Sequence[str | Path]], largest_file: int | None = None
    ) -> list[Finished]:
        """Run several commands at the same time."""
        self.start(commands, largest_file)
        return self.wait()

    def start(
        self, commands: Sequence[Sequence[str | Path]], largest_file: int | None = None
    ) -> list[int]:
        """Start commands and return their process ids; `wait` must follow."""
        request = {
            "commands": [[str(argument) for argument in command] for command in commands],
            "largest_file": largest_file,
            "scratch": str(self._scratch),
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return [answer["pid"] for answer in self._answer()]

    def are_over(self, within: float) -> bool:
        """Whether all commands that were started have ended, or do so within some seconds."""
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], within)[0])

    def wait(self) -> list[Finished]:
        """Wait for the end of the commands that were started."""
        return [
            Finished(
                answer["code"],
                (self._scratch / f"{number}.out").read_text(),
                (self._scratch / f"{number}.err").read_text(),
                answer["peak"],
            )
            for number, answer in enumerate(self._answer())
        ]

    def _answer(self) -> list[dict[str, int]]:
        assert self._process.stdout is not None
        answer: list[dict[str, int]] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def permissions_bind() -> bool:
    """Whether file permissions mean anything to the commands."""
    return os.geteuid() != 0 or bool(without_root_powers())


def without_root_powers() -> list[str]:
    """What to put before a command so that file permissions bind it even if root runs the tests."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return []
    command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    # A container may not be allowed to give its powers up.
    works = subprocess.run([*command, "true"], check=False, capture_output=True).returncode == 0
    return command if works else []


def _serve() -> None:
    import mrs.cli.app
    import mrs.cli.progress
    import mrs.export.pipeline  # noqa: F401

    for line in sys.stdin:
        request = json.loads(line)
        children = [_fork(number, request) for number in range(len(request["commands"]))]
        _tell([{"pid": child} for child in children])
        _tell([_wait_for(child) for child in children])


def _fork(number: int, request: Mapping[str, Any]) -> int:
    child = os.fork()
    if child == 0:
        signal.alarm(_PATIENCE_SECONDS)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if request["largest_file"] is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (request["largest_file"],) * 2)
        scratch = Path(request["scratch"])
        paths = (Path(os.devnull), scratch / f"{number}.out", scratch / f"{number}.err")
        for descriptor, path in enumerate(paths):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), descriptor)
        _run_and_exit(request["commands"][number])
    return child


def _run_and_exit(command: Sequence[str]) -> NoReturn:
    from mrs.cli.app import invoke

    code = 99
    try:
        code = invoke(command)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait_for(child: int) -> dict[str, int]:
    _, status, usage = os.wait4(child, 0)
    return {"code": os.waitstatus_to_exitcode(status), "peak": usage.ru_maxrss * 1024}


def _tell(answers: list[dict[str, int]]) -> None:
    sys.stdout.write(json.dumps(answers) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _serve()
