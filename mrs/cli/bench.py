"""``mrs bench``: how fast a model is on this machine."""

from __future__ import annotations

from enum import StrEnum
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mrs.cli.model_argument import ModelArgument, QuantizationOption, find_model
from mrs.cli.options import Quantization, RepoOption, open_repository

if TYPE_CHECKING:
    from mrs.model_repo.version import ModelVersion
    from mrs.runtime.benchmark import BenchmarkTest, Rate
    from mrs.runtime.loading import LoadedModel


class Output(StrEnum):
    """How results are written."""

    TABLE = "table"
    JSON = "json"


def bench(
    model: ModelArgument,
    prompt_tokens: Annotated[
        str, typer.Option("--prompt", "-p", metavar="N,...", help="Lengths of prompts; 0 for none.")
    ] = "512",
    generated_tokens: Annotated[
        str,
        typer.Option("--generate", "-n", metavar="N,...", help="Tokens to generate; 0 for none."),
    ] = "128",
    depth: Annotated[
        str, typer.Option("--depth", "-d", metavar="N,...", help="Tokens in the cache before.")
    ] = "0",
    batch: Annotated[
        str, typer.Option("--batch", "-b", metavar="N,...", help="Sequences at once.")
    ] = "1",
    repetitions: Annotated[
        int, typer.Option("--repetitions", "-r", min=1, metavar="N", help="Runs of each test.")
    ] = 5,
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads", "-t", min=1, metavar="N", help="By default one for each processor."
        ),
    ] = None,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="How results are written.")
    ] = Output.TABLE,
    repo: RepoOption = None,
    quant: QuantizationOption = Quantization.AUTO,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --output json.")] = False,
) -> None:
    """Measure how fast a model computes prompts (pp) and generates (tg), in tokens per second.

    Columns and options are llama-bench's. What is measured is what a client gets, without HTTP:
    scheduler, sampling and text included. Each test runs once to warm up.

    \b
    Examples:
      mrs bench smollm2
      mrs bench smollm2 -p 512 -n 128 -d 0,2048 -b 1,4,16 -r 5
      mrs bench smollm2:1 -p 0 -n 64 -b 16 -o json
    """
    import asyncio

    from mrs.cli.console import print_json
    from mrs.cli.progress import make_progress

    as_json = as_json or output is Output.JSON
    tests = _tests(prompt_tokens, generated_tokens, depth, batch)
    version = find_model(model, open_repository(repo), quant, silent=as_json)
    progress = make_progress(silent=as_json)
    with progress.phase(f"Load {version.reference}"):
        loaded = _load(version, tests, threads)
    try:
        with progress.phase("Measure", total=len(tests) * (repetitions + 1)) as advance:
            rates = asyncio.run(_run(loaded, tests, repetitions, lambda: advance(1)))
    finally:
        loaded.close()
    rows = [_row(version, loaded, test, rate) for test, rate in zip(tests, rates, strict=True)]
    if as_json:
        print_json({"results": rows})
    else:
        _print_table(rows)


def _tests(prompts: str, generated: str, depths: str, batches: str) -> list[BenchmarkTest]:
    from mrs.errors import UsageError
    from mrs.runtime.benchmark import BenchmarkTest, TestKind

    counts = [
        *((TestKind.PROMPT, count) for count in _numbers("--prompt", prompts, least=0)),
        *((TestKind.GENERATION, count) for count in _numbers("--generate", generated, least=0)),
    ]
    tests = [
        BenchmarkTest(kind, count, depth, batch)
        for depth, batch, (kind, count) in product(
            _numbers("--depth", depths, least=0), _numbers("--batch", batches, least=1), counts
        )
        if count
    ]
    if not tests:
        raise UsageError("There is nothing to measure.", hint="Give --prompt or --generate.")
    return tests


def _numbers(option: str, text: str, *, least: int) -> list[int]:
    from mrs.errors import UsageError

    numbers = [part.strip() for part in text.split(",")]
    if not all(number.isascii() and number.isdecimal() for number in numbers):
        raise UsageError(
            f"{option} is {text!r:.60}; it must be numbers with commas between them.",
            hint=f"For example: {option} 1,4,16",
        )
    found = [int(number) for number in numbers]
    if min(found) < least:
        raise UsageError(f"{option} holds {min(found)}; the least is {least}.")
    return found


def _load(version: ModelVersion, tests: list[BenchmarkTest], threads: int | None) -> LoadedModel:
    from mrs.errors import UsageError
    from mrs.runtime.loading import load_served

    longest = max(test.length for test in tests)
    context = version.lock.model.context_length
    if longest > context:
        raise UsageError(
            f"The longest test needs {longest} tokens; {version.reference} has {context}.",
            hint="Lower --prompt, --generate or --depth.",
        )
    return load_served(
        version,
        max_seqs=max(test.batch for test in tests),
        max_model_len=max(2, longest),
        threads=threads,
        # Rows that tests leave behind are of use to tests at a depth alone.
        prefix_cache_bytes=1 << 40 if any(test.depth for test in tests) else 0,
    )


async def _run(
    loaded: LoadedModel, tests: list[BenchmarkTest], repetitions: int, on_repetition: Any
) -> list[Rate]:
    from mrs.runtime.benchmark import run_test

    return [
        await run_test(loaded.engine, test, loaded.vocab_size, repetitions, on_repetition)
        for test in tests
    ]


def _row(
    version: ModelVersion, loaded: LoadedModel, test: BenchmarkTest, rate: Rate
) -> dict[str, Any]:
    lock = version.lock
    return {
        "model": version.reference,
        "quant": lock.inputs.options.get("quant"),
        "size": sum(file.size for file in lock.files),
        "threads": loaded.threads,
        "batch": test.batch,
        "depth": test.depth,
        "test": test.name,
        "tokens_per_second": round(rate.mean, 2),
        "deviation": round(rate.deviation, 2),
        "samples": [round(sample, 2) for sample in rate.samples],
    }


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    from mrs.cli.console import format_size, stdout_console

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("model", "quant"):
        table.add_column(name)
    for name in ("size", "threads", "batch"):
        table.add_column(name, justify="right")
    table.add_column("test")
    table.add_column("tok/s", justify="right")
    for row in rows:
        speed = f"{row['tokens_per_second']:.2f} ± {row['deviation']:.2f}"
        size, threads, batch = format_size(row["size"]), str(row["threads"]), str(row["batch"])
        table.add_row(row["model"], row["quant"], size, threads, batch, row["test"], speed)
    stdout_console().print(table)
