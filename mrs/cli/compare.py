"""``mrs compare``: two versions side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mrs.cli.options import JsonOption, RepoOption, complete_reference, open_repository

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from mrs.cli.version_diff import Figure
    from mrs.export.locked import Difference
    from mrs.model_repo.measurements import Measurements
    from mrs.model_repo.version import ModelVersion

    Versions = tuple[ModelVersion, ModelVersion]
    Speeds = tuple[Measurements | None, Measurements | None]

_DIGITS_OF_A_DIGEST = 16


def _reference_argument(metavar: str) -> Any:
    return typer.Argument(
        metavar=metavar,
        help="NAME (its newest version), NAME:VERSION, or the folder of a version (./DIR).",
        autocompletion=complete_reference,
        show_default=False,
    )


def compare(
    first: Annotated[str, _reference_argument("A")],
    second: Annotated[str, _reference_argument("B")],
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="Measure the speed of both now, in turns, instead of showing what was recorded.",
        ),
    ] = False,
    repo: RepoOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show two versions side by side.

    That is their size, how near each is to its checkpoint, their speed, and what differs: the
    source, the options and the tools, how weights are stored, tokenizer and chat template. Speeds
    that were recorded on different machines or days say little; --measure takes both now.

    \b
    Examples:
      mrs compare smollm2:1 smollm2:2
      mrs compare smollm2:1 ./elsewhere/smollm2 --measure
    """
    from mrs.model_repo.measurements import read_measurements

    repository = open_repository(repo)
    versions = (repository.resolve(first), repository.resolve(second))
    speeds = (read_measurements(versions[0]), read_measurements(versions[1]))
    if measure:
        speeds = _measure(versions, silent=as_json)
    if as_json:
        _print_json(versions, speeds)
    else:
        _print(versions, speeds)


def _measure(versions: Versions, *, silent: bool) -> Speeds:
    from mrs.cli.progress import make_progress
    from mrs.export.parity.speed import compare_speed

    progress = make_progress(silent=silent)
    first, second = versions
    context = min(version.lock.model.context_length for version in versions)
    return compare_speed((first.graph_path, second.graph_path), context, progress)


def _print_json(versions: Versions, speeds: Speeds) -> None:
    from mrs.cli import version_diff
    from mrs.cli.console import print_json
    from mrs.cli.model_card import version_proof, version_summary

    locks = (versions[0].lock, versions[1].lock)
    sides = [
        version_summary(version)
        | version_proof(version)
        | {"speed": None if speed is None else speed.model_dump(mode="json")}
        for version, speed in zip(versions, speeds, strict=True)
    ]
    print_json(
        {
            "a": sides[0],
            "b": sides[1],
            "same_artifact": version_diff.same_artifact(*versions),
            "same_text": version_diff.same_text(*versions),
            "figures": [
                {
                    "name": figure.name,
                    "unit": figure.unit,
                    "a": figure.values[0],
                    "b": figure.values[1],
                    "ratio": figure.ratio,
                    "b_is_better": figure.better,
                }
                for figure in version_diff.figures(versions, speeds)
            ],
            "differences": _as_json(version_diff.lock_differences(*locks)),
            "weights": _as_json(version_diff.weight_differences(*locks)),
        }
    )


def _as_json(differences: Sequence[Difference]) -> list[dict[str, str | None]]:
    return [{"what": each.what, "a": each.locked, "b": each.now} for each in differences]


def _print(versions: Versions, speeds: Speeds) -> None:
    from mrs.cli import version_diff
    from mrs.cli.console import note, stdout_console

    console = stdout_console()
    locks = (versions[0].lock, versions[1].lock)
    console.print(_figure_table(versions, [*version_diff.figures(versions, speeds)]))
    if version_diff.same_artifact(*versions):
        console.print("\nThe artifacts are the same, byte for byte.")
    else:
        _print_section(console, "Differs", version_diff.lock_differences(*locks))
        _print_section(console, "Weights", version_diff.weight_differences(*locks))
    if not version_diff.same_text(*versions):
        note("The two were measured on different texts: their KL cannot be compared.")


def _figure_table(versions: Versions, figures: Sequence[Figure]) -> Table:
    from rich.text import Text

    from mrs.cli.console import printable

    table = _table("", *(printable(version.reference) for version in versions), "B / A")
    for column in table.columns[1:]:
        column.justify = "right"
    for figure in figures:
        if figure.values != (None, None):
            cells = [Text(_shown(value, figure.unit)) for value in figure.values]
            table.add_row(Text(figure.name, style="dim"), *cells, _verdict(figure))
    return table


def _shown(value: float | None, unit: str) -> str:
    from mrs.cli.console import format_size

    if value is None:
        return "-"
    if unit == "bytes":
        return format_size(int(value))
    return f"{value:g} {unit}".rstrip()


def _verdict(figure: Figure) -> Text:
    """The ratio, in green where the second version is better and in red where it is worse."""
    from rich.text import Text

    if figure.ratio is None:
        return Text("")
    style = {True: "green", False: "red", None: ""}[figure.better]
    return Text(f"{figure.ratio:.3f}", style=style)


def _print_section(console: Console, title: str, differences: Sequence[Difference]) -> None:
    from rich.text import Text

    from mrs.cli.console import printable

    if not differences:
        return
    table = _table(title, "A", "B")
    for each in differences:
        cells = [Text(printable(_short(value))) for value in (each.locked, each.now)]
        table.add_row(Text(printable(each.what), style="dim"), *cells)
    console.print()
    console.print(table)


def _table(*headings: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _short(value: str | None) -> str:
    """A digest by its first digits; ``-`` for what is not there."""
    if value is None:
        return "-"
    is_digest = len(value) == 64 and set(value) <= set("0123456789abcdef")
    return value[:_DIGITS_OF_A_DIGEST] if is_digest else value
