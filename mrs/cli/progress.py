"""The phases of long work, drawn on stderr: bars on a terminal, one line each elsewhere.

Imports Rich: commands import this module when they need it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.table import Column
from rich.text import Text

from mrs.cli.console import format_seconds, format_size, printable, stderr_console
from mrs.export.progress import Advance, Progress, SilentProgress


def make_progress(*, silent: bool) -> Progress:
    """A progress for this command: silent (with ``--json``) or on stderr."""
    return SilentProgress() if silent else ConsoleProgress()


class ConsoleProgress:
    """Shows phases, which may be nested, on stderr.

    A terminal gets a bar with amount, speed and time left while a phase lasts, and a line of what
    it took when it is over. Anything else gets the lines alone, begun when the phase begins, so
    that the last line of a log tells what is being done.
    """

    def __init__(self, console: Console | None = None) -> None:
        console = console or stderr_console()
        animated = console.is_terminal and not console.is_dumb_terminal
        self._drawing: _Bars | _Lines = _Bars(console) if animated else _Lines(console)

    def phase(
        self, label: str, *, total: int | None = None, unit: str = "items"
    ) -> AbstractContextManager[Advance]:
        """Enter a phase; see `mrs.export.progress.Progress`."""
        return self._drawing.phase(printable(label), total, unit)


class _Lines:
    """One line a phase: ``Read checkpoint ... done in 0.3 s``."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._open: str | None = None

    @contextmanager
    def phase(self, label: str, total: int | None, unit: str) -> Iterator[Advance]:
        self._begin(label)
        started = time.perf_counter()
        try:
            yield _ignore
        except BaseException:
            self._end(label, "failed")
            raise
        self._end(label, f"done in {format_seconds(time.perf_counter() - started)}")

    def _begin(self, label: str) -> None:
        if self._open is not None:
            self._console.print()
        self._console.print(Text(f"{label} ... "), end="")
        self._console.file.flush()
        self._open = label

    def _end(self, label: str, outcome: str) -> None:
        # After a nested phase, the line of the outer one is no longer open.
        line = outcome if self._open == label else f"{label} ... {outcome}"
        self._console.print(Text(line))
        self._open = None


class _Bars:
    """A bar for each phase that is going on; a line for each that is over."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = Bars(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            _Amount(table_column=Column(no_wrap=True)),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
        )
        self._depth = 0

    @contextmanager
    def phase(self, label: str, total: int | None, unit: str) -> Iterator[Advance]:
        task = self._begin_bar(label, total, unit)
        started = time.perf_counter()
        try:
            yield lambda amount: self._bars.advance(task, amount)
            self._summarize(task, time.perf_counter() - started)
        finally:
            self._end_bar(task)

    def _begin_bar(self, label: str, total: int | None, unit: str) -> TaskID:
        if self._depth == 0:
            self._bars.start()
        self._depth += 1
        return self._bars.add_task(label, total=total, unit=unit)

    def _summarize(self, number: TaskID, seconds: float) -> None:
        task = next(task for task in self._bars.tasks if task.id == number)
        in_bytes = task.fields["unit"] == "bytes" and task.completed > 0
        amount = format_size(int(task.completed)) if in_bytes else "done"
        line = f"{task.description}: {amount} in {format_seconds(seconds)}"
        self._console.print(Text(line, style="dim"))

    def _end_bar(self, number: TaskID) -> None:
        self._bars.remove_task(number)
        self._depth -= 1
        if self._depth == 0:
            self._bars.stop()


class _Amount(ProgressColumn):
    """``12.1 MB of 98.0 MB`` for bytes, ``3/30`` for items."""

    def render(self, task: Task) -> Text:
        """Draw the amount of one phase."""
        if task.fields["unit"] == "bytes":
            return Text(_bytes_of(task), style="progress.download")
        if task.total is None:
            return Text("")
        return Text(f"{int(task.completed)}/{int(task.total)}", style="progress.download")


def _bytes_of(task: Task) -> str:
    done = format_size(int(task.completed))
    of_total = f" of {format_size(int(task.total))}" if task.total is not None else ""
    return done + of_total


def _ignore(amount: int) -> None:
    """Take no note of ``amount``."""
