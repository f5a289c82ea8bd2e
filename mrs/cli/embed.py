"""``mrs embed``: vectors of texts, or how near they are to each other, in this process."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mrs.cli.model_argument import ModelArgument, QuantizationOption, find_model
from mrs.cli.options import Quantization, RepoOption, open_repository

if TYPE_CHECKING:
    from mrs.model_repo.version import ModelVersion
    from mrs.runtime.embedder import Embeddings


def embed(
    model: ModelArgument,
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT...",
            help="Texts; '-' alone reads them from standard input, one on each line.",
        ),
    ] = None,
    prompt: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Which of the model's prompts comes first, such as query."
        ),
    ] = None,
    dimensions: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Keep the first N dimensions (matryoshka models)."),
    ] = None,
    similarity: Annotated[
        bool,
        typer.Option("--similarity", help="Show cosine similarities instead of vectors."),
    ] = False,
    truncate: Annotated[
        bool, typer.Option("--truncate", help="Cut texts that are too long.")
    ] = False,
    threads: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="By default one for each processor."),
    ] = None,
    repo: RepoOption = None,
    quant: QuantizationOption = Quantization.AUTO,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="One JSON document, with token counts, and no progress."),
    ] = False,
) -> None:
    """Make vectors of texts with an embedding model, without a server.

    MODEL is in the model repository, or is exported into it first.

    Each vector is one line of JSON on standard output, in the order of the texts.

    \b
    Examples:
      mrs embed all-minilm-l6-v2 "a cat" "a dog" "a car" --similarity
      mrs embed all-minilm-l6-v2 - < lines.txt > vectors.jsonl
    """
    from mrs.errors import UsageError

    lines = _texts(texts or [])
    if not lines:
        raise UsageError("There is no text.", hint="Pass some, or '-' to read them from a pipe.")
    version = find_model(model, open_repository(repo), quant, silent=as_json)

    from mrs.runtime.embedder import open_embedder

    with open_embedder(version, threads=threads) as embedder:
        found = embedder.embed(lines, purpose=prompt, truncate=truncate, dimensions=dimensions)
    if as_json:
        _print_json(version, found, similarity=similarity)
    elif similarity:
        _print_table(lines, found)
    else:
        _print_lines(found)


def _texts(arguments: list[str]) -> list[str]:
    if arguments != ["-"]:
        return arguments
    return [line.rstrip("\r\n") for line in sys.stdin if line.strip()]


def _print_lines(found: Embeddings) -> None:
    import orjson

    for vector in found.vectors:
        sys.stdout.write(orjson.dumps(vector, option=orjson.OPT_SERIALIZE_NUMPY).decode() + "\n")


def _print_json(version: ModelVersion, found: Embeddings, *, similarity: bool) -> None:
    from mrs.cli.console import print_json
    from mrs.runtime.embedder import cosine_similarities

    result: dict[str, Any] = {"model": version.reference, "tokens": list(found.tokens)}
    if similarity:
        result["similarities"] = cosine_similarities(found.vectors).tolist()
    else:
        result["embeddings"] = found.vectors.tolist()
    print_json(result)


def _print_table(texts: list[str], found: Embeddings) -> None:
    from rich.table import Table
    from rich.text import Text

    from mrs.cli.console import printable, stdout_console
    from mrs.runtime.embedder import cosine_similarities

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("TEXT", overflow="ellipsis", no_wrap=True, max_width=40)
    for number in range(1, len(texts) + 1):
        table.add_column(str(number), justify="right", no_wrap=True)
    for number, (text, row) in enumerate(
        zip(texts, cosine_similarities(found.vectors), strict=True), 1
    ):
        cells = [f"{value:.4f}" for value in row]
        table.add_row(Text(printable(f"{number} {text}")), *cells)
    stdout_console().print(table)
