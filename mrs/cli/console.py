"""What the command line writes: results to stdout, everything else to stderr.

Rich is imported inside the functions, so that nothing is paid for it before something is drawn.
"""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrs.errors import MrsError

if TYPE_CHECKING:
    from rich.console import Console

# Wide enough that no table of ours is cut where there is no terminal to tell a width.
_WIDTH_OF_A_PIPE = 250


def stdout_console() -> Console:
    """The console for results; without colours, and never cut, where stdout is no terminal."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDTH_OF_A_PIPE
    return console


def stderr_console() -> Console:
    """The console for progress, notes and errors; text is never wrapped."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Write one JSON document to stdout, in ASCII so that any terminal and pipe carries it."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def note(text: str) -> None:
    """Write a line for the person at the keyboard to stderr."""
    stderr_console().print(printable(text))


def ask(question: str) -> bool:
    """Ask a yes-or-no question on stderr; anything but ``y`` or ``yes`` means no."""
    console = stderr_console()
    console.print(f"{printable(question)} [y/N] ", end="")
    console.file.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def print_error(error: MrsError) -> None:
    """Write ``error[code]: message`` and, if there is one, ``help: hint`` to stderr."""
    from rich.text import Text

    console = stderr_console()
    message = printable(error.message)
    console.print(Text.assemble((f"error[{error.code}]", "bold red"), (f": {message}", "bold")))
    if error.hint:
        console.print(Text.assemble(("help", "bold cyan"), f": {printable(error.hint)}"))


def printable(text: str) -> str:
    """Text that may hold anything a file holds, on one line and without control characters.

    A model's file could otherwise move the cursor, set the window title or forge a line.
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def write_answer(text: str) -> None:
    """Write a piece of a model's answer to stdout at once; a terminal gets no control characters.

    A model could otherwise be made to move the cursor or to set the window title. Files and pipes
    get the answer as it is.
    """
    sys.stdout.write(_harmless(text) if sys.stdout.isatty() else text)
    sys.stdout.flush()


def _harmless(text: str) -> str:
    """The text with its control characters as escapes, but for line ends and tabs."""
    return "".join(
        character.encode("unicode_escape").decode() if _is_control(character) else character
        for character in text.replace("\r\n", "\n")
    )


def _is_control(character: str) -> bool:
    return unicodedata.category(character) == "Cc" and character not in "\n\t"


def format_size(size: int) -> str:
    """Bytes for people: ``138.2 MB`` (decimal, as disks are sold)."""
    from rich.filesize import decimal

    return decimal(size)


def format_seconds(seconds: float) -> str:
    """A time for people: ``0.3 s``, ``2 min 5 s``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def plural(count: int, noun: str) -> str:
    """``1 version``, ``2 versions``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def open_closed_streams() -> None:
    """Put the null device where stdin, stdout or stderr is closed.

    Python has no stream there then, and the next file to be opened would get the stream's number:
    whatever a library prints would go into it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115


def tolerate_any_encoding() -> None:
    """Let stdout and stderr write what their encoding lacks as an escape, not as an error."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def silence_stdout() -> None:
    """After the reader of stdout has left: keep the interpreter from complaining as it exits."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
