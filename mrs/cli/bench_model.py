"""``mrs bench MODEL``: rates of a model that runs in this process."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrs.cli.model_argument import find_model
from mrs.cli.number_lists import numbers
from mrs.cli.options import KvCacheType, Quantization, SpeculativeKind, open_repository

if TYPE_CHECKING:
    from mrs.model_repo.version import ModelVersion
    from mrs.runtime.benchmark import BenchmarkTest, Rate
    from mrs.runtime.loading import LoadedModel


@dataclass(frozen=True)
class ModelBench:
    """The options of the command; lists of numbers as they were written."""

    model: str
    prompt_tokens: str
    generated_tokens: str
    depth: str
    batch: str
    repetitions: int
    threads: int | None
    kv_cache_type: KvCacheType
    speculative: SpeculativeKind
    draft_model: str | None
    repo: Path | None
    quant: Quantization


def bench_model(options: ModelBench, *, as_json: bool) -> None:
    """Measure and print."""
    import asyncio

    from mrs.cli.console import print_json
    from mrs.cli.progress import make_progress

    tests = _tests(options.prompt_tokens, options.generated_tokens, options.depth, options.batch)
    repetitions = options.repetitions
    repository = open_repository(options.repo)
    version = find_model(
        options.model,
        repository,
        options.quant,
        silent=as_json,
        int8_cache=options.kv_cache_type is KvCacheType.INT8,
    )
    draft = None
    if options.draft_model is not None:
        draft = find_model(options.draft_model, repository, options.quant, silent=as_json)
    progress = make_progress(silent=as_json)
    with progress.phase(f"Load {version.reference}"):
        loaded = _load(version, tests, options, draft)
    try:
        with progress.phase("Measure", total=len(tests) * (repetitions + 1)) as advance:
            rates = asyncio.run(_run(loaded, tests, repetitions, lambda: advance(1)))
    finally:
        loaded.close()
    cache_type = options.kv_cache_type.value
    rows = [
        _row(version, loaded, test, rate) | {"kv_cache_type": cache_type}
        for test, rate in zip(tests, rates, strict=True)
    ]
    if as_json:
        print_json({"results": rows})
    else:
        _print_table(rows)


def _tests(prompts: str, generated: str, depths: str, batches: str) -> list[BenchmarkTest]:
    from mrs.errors import UsageError
    from mrs.runtime.benchmark import BenchmarkTest, TestKind

    counts = [
        *((TestKind.PROMPT, count) for count in numbers("--prompt", prompts, least=0)),
        *((TestKind.GENERATION, count) for count in numbers("--generate", generated, least=0)),
    ]
    tests = [
        BenchmarkTest(kind, count, depth, batch)
        for depth, batch, (kind, count) in product(
            numbers("--depth", depths, least=0), numbers("--batch", batches, least=1), counts
        )
        if count
    ]
    if not tests:
        raise UsageError("There is nothing to measure.", hint="Give --prompt or --generate.")
    return tests


def _load(
    version: ModelVersion,
    tests: list[BenchmarkTest],
    options: ModelBench,
    draft: ModelVersion | None,
) -> LoadedModel:
    from mrs.errors import UsageError
    from mrs.runtime.loading import load_served
    from mrs.runtime.model_kind import require_generator
    from mrs.runtime.speculation.options import SpeculationOptions

    require_generator(version)
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
        threads=options.threads,
        kv_cache_type=options.kv_cache_type.value,
        speculation=SpeculationOptions(
            prompt_lookup=options.speculative is SpeculativeKind.PROMPT_LOOKUP, draft=draft
        ),
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
