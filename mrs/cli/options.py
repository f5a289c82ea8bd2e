"""Options and arguments that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mrs.model_repo.repository import ModelRepository


class Quantization(StrEnum):
    """How the weights are stored in the exported model."""

    AUTO = "auto"
    KEEP = "keep"
    Q8 = "q8"
    Q4 = "q4"
    W8A8 = "w8a8"
    FP32 = "fp32"


class Parity(StrEnum):
    """When an export is measured against its float32 graph."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class KvCacheType(StrEnum):
    """What keys and values of running texts are stored as."""

    FP32 = "fp32"
    INT8 = "int8"


class SpeculativeKind(StrEnum):
    """What tokens are guessed by."""

    OFF = "off"
    PROMPT_LOOKUP = "prompt-lookup"


KV_CACHE_TYPE_HELP = (
    "What keys and values are stored as: fp32, or int8: a quarter of the memory and faster answers "
    "to long texts, slower reading of them, and a little less exact."
)
KvCacheTypeOption = Annotated[
    KvCacheType,
    typer.Option(
        "--kv-cache-type",
        help=KV_CACHE_TYPE_HELP,
    ),
]

RepoOption = Annotated[
    Path | None,
    typer.Option(
        "--repo",
        metavar="DIR",
        envvar="MRS_MODEL_REPO",
        help="The model repository; by default in your user data folder.",
    ),
]

SpeculativeOption = Annotated[
    SpeculativeKind,
    typer.Option(help="What tokens are guessed by; see `mrs serve --help`."),
]

DraftModelOption = Annotated[
    str | None,
    typer.Option(metavar="MODEL", help="A smaller model with the same tokens, to guess with."),
]

JsonOption = Annotated[
    bool,
    typer.Option("--json", help="Write one JSON document to stdout, and no progress."),
]


def complete_reference(incomplete: str) -> list[str]:
    """Model references in the default repository, for the shell's completion."""
    from mrs.errors import MrsError
    from mrs.model_repo.layout import RepositoryLayout
    from mrs.model_repo.repository import default_root

    layout = RepositoryLayout(default_root())
    try:
        names = layout.names()
        found = names + [f"{name}:{number}" for name in names for number in layout.numbers(name)]
    except MrsError:
        return []
    return [reference for reference in sorted(found) if reference.startswith(incomplete)]


ReferenceArgument = Annotated[
    str,
    typer.Argument(
        metavar="REF",
        help="NAME (its newest version), NAME:VERSION, or the folder of a version (./DIR).",
        autocompletion=complete_reference,
    ),
]

ReferencesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="REF",
        help="NAME (its newest version), NAME:VERSION, or the folder of a version (./DIR).",
        autocompletion=complete_reference,
    ),
]


def open_repository(repo: Path | None) -> ModelRepository:
    """The repository that ``--repo``, ``$MRS_MODEL_REPO`` or the default names."""
    from mrs.model_repo.repository import ModelRepository, default_root

    return ModelRepository(repo.expanduser() if repo is not None else default_root())
