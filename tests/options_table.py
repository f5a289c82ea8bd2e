"""The options of `mrs serve` as docs/server.md has them.

    python -m tests.options_table

writes the tables between the marks anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import typer

from mrs.cli.app import app

DOCUMENT = Path(__file__).parents[1] / "docs" / "server.md"
_BEGIN, _END = "<!-- options -->", "<!-- end of options -->"
_OTHERS = "Models"
_COMMAND_LINE_ONLY = frozenset({"help", "models"})


def options_tables() -> str:
    """One table for each heading of `mrs serve --help`."""
    command = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    rows: dict[str, list[str]] = {}
    for parameter in command.params:
        if parameter.name not in _COMMAND_LINE_ONLY:
            heading = getattr(parameter, "rich_help_panel", None) or _OTHERS
            rows.setdefault(heading, []).append(_row(parameter))
    return "\n\n".join(
        f"| {heading} | default | |\n| --- | --- | --- |\n" + "\n".join(lines)
        for heading, lines in rows.items()
    )


def _row(parameter: object) -> str:
    names = " ".join(f"`{name}`" for name in parameter.opts)  # type: ignore[attr-defined]
    default = parameter.default  # type: ignore[attr-defined]
    shown = "" if default in (None, False) else "on" if default is True else f"`{default}`"
    text = re.sub(r"\s+", " ", parameter.help).replace("|", "\\|")  # type: ignore[attr-defined]
    return f"| {names} | {shown} | {text} |"


def documented_tables() -> str:
    """What stands between the marks."""
    text = DOCUMENT.read_text(encoding="utf-8")
    return text.partition(_BEGIN)[2].partition(_END)[0].strip()


def main() -> None:
    """Write the tables."""
    text = DOCUMENT.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEGIN)
    after = rest.partition(_END)[2]
    new = f"{before}{_BEGIN}\n\n{options_tables()}\n\n{_END}{after}"
    DOCUMENT.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
