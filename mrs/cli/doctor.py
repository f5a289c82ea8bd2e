"""``mrs doctor``: is everything here that mrs needs?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mrs.cli.options import JsonOption, RepoOption, open_repository

if TYPE_CHECKING:
    from mrs.server.admin.doctor import Report

_EXIT_UNHEALTHY = 1
_STYLES = {"ok": "green", "warn": "yellow", "error": "bold red"}


def doctor(
    repo: RepoOption = None,
    port: Annotated[
        int, typer.Option(min=1, max=65535, metavar="PORT", help="That a server is to listen on.")
    ] = 1234,
    as_json: JsonOption = False,
) -> None:
    """Look at Python, ONNX Runtime, processor, memory, disk, repository, network and clock.

    Exit code 1 means that something is wrong; warnings alone do not. For a report of a bug, add
    the output of `mrs doctor --json`.

    \b
    Examples:
      mrs doctor
      mrs doctor --json > doctor.json
    """
    from mrs.cli.console import print_json
    from mrs.server.admin.doctor import diagnose

    report = diagnose(open_repository(repo), port=port)
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        _print(report)
    if not report.healthy:
        raise typer.Exit(_EXIT_UNHEALTHY)


def _print(report: Report) -> None:
    from rich.text import Text

    from mrs.cli.console import printable, stdout_console

    console = stdout_console()
    for check in report.checks:
        status = Text(f"{check.status.value:<6}", style=_STYLES[check.status.value])
        console.print(Text.assemble(status, f"{check.name}: {printable(check.message)}"))
        if check.suggestion:
            console.print(Text(f"      help: {printable(check.suggestion)}"))
