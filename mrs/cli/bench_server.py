"""``mrs bench --serve URL``: what the clients of a running server feel."""

from __future__ import annotations

import dataclasses
import secrets
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from mrs.cli.number_lists import numbers, rates

if TYPE_CHECKING:
    from collections.abc import Callable

    from mrs.load_test.completion import Target
    from mrs.load_test.load import Rate, Streams
    from mrs.load_test.report import Report

_FEWEST_REQUESTS = 16
_REQUESTS_PER_STREAM = 4
_PROMPT_BITS = 60


@dataclass(frozen=True)
class ServerBench:
    """The options of the command; lists of numbers as they were written."""

    url: str
    model: str | None
    prompt_tokens: str
    generated_tokens: str
    streams: str | None
    rate: str | None
    arrivals: str
    requests: int | None
    endpoint: str
    slo_ttft: float | None
    slo_tpot: float | None
    api_key: str


@dataclass(frozen=True)
class _Test:
    target: Target
    prompt_tokens: int
    load: Streams | Rate
    requests: int


def bench_server(options: ServerBench, *, as_json: bool) -> None:
    """Measure and print."""
    import asyncio

    from mrs.cli.console import print_json
    from mrs.cli.progress import make_progress

    progress = make_progress(silent=as_json)
    tests = asyncio.run(_tests(options))
    total = sum(test.requests for test in tests)
    with progress.phase(f"Measure {options.url}", total=total) as advance:
        reports = asyncio.run(_run(options, tests, lambda: advance(1)))
    rows = [_row(test, report) for test, report in zip(tests, reports, strict=True)]
    if as_json:
        print_json({"url": options.url, "results": rows})
    else:
        _print_table(rows)


async def _tests(options: ServerBench) -> list[_Test]:
    """What is measured, for each of the loads, prompts and answers that are asked for."""
    from mrs.errors import UsageError
    from mrs.load_test.completion import Endpoint, Target
    from mrs.load_test.http_stream import ServerAddress
    from mrs.load_test.run import first_model

    loads = _loads(options)
    sizes = product(
        numbers("--prompt", options.prompt_tokens, least=1),
        numbers("--generate", options.generated_tokens, least=1),
    )
    try:
        address = ServerAddress.from_url(options.url)
    except ValueError as error:
        raise UsageError(
            f"--serve: {error}.", hint="For example: --serve http://127.0.0.1:1234"
        ) from error
    model = options.model or await first_model(address, options.api_key)
    endpoint = Endpoint(options.endpoint)
    return [
        _Test(Target(address, model, endpoint, generated, options.api_key), prompt, load, requests)
        for prompt, generated in sizes
        for load, requests in loads
    ]


def _loads(options: ServerBench) -> list[tuple[Streams | Rate, int]]:
    """Each with its number of requests."""
    from mrs.errors import UsageError
    from mrs.load_test.load import Arrivals, Rate, Streams

    if options.rate is None:
        counts = numbers("--streams", options.streams or "1", least=1)
        return [(Streams(count), options.requests or _usual_requests(count)) for count in counts]
    if options.streams is not None:
        raise UsageError("--streams and --rate are two ways to say how many requests are made.")
    arrivals = Arrivals(options.arrivals)
    return [
        (Rate(rate, arrivals), options.requests or _usual_requests(1))
        for rate in rates("--rate", options.rate)
    ]


def _usual_requests(streams: int) -> int:
    return max(_FEWEST_REQUESTS, _REQUESTS_PER_STREAM * streams)


async def _run(
    options: ServerBench, tests: list[_Test], on_request: Callable[[], None]
) -> list[Report]:
    from mrs.load_test.report import Objective
    from mrs.load_test.run import run_load, warm_up

    objective = Objective(options.slo_ttft, options.slo_tpot)
    reports: list[Report] = []
    # A server may still have prompts of the last run in its cache.
    first = secrets.randbits(_PROMPT_BITS)
    await warm_up(tests[0].target, tests[0].prompt_tokens)
    for test in tests:
        reports.append(
            await run_load(
                test.target,
                test.load,
                requests=test.requests,
                prompt_tokens=test.prompt_tokens,
                objective=objective,
                first=first,
                on_request=on_request,
            )
        )
        first += test.requests
    return reports


def _row(test: _Test, report: Report) -> dict[str, Any]:
    return {
        "model": test.target.model,
        "endpoint": test.target.endpoint.value,
        **dataclasses.asdict(test.load),
        **_rounded(dataclasses.asdict(report)),
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    return round(value, 3) if isinstance(value, float) else value


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    from mrs.cli.console import note, printable, stdout_console

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in (
        *("load", "prompt", "answer", "failed", "req/s", "good/s", "tok/s"),
        *("TTFT p50", "p99", "TPOT p50", "p99", "ITL mean", "p50", "p99"),
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row))
    stdout_console().print(table)
    for row in rows:
        for error in row["errors"]:
            note(f"{_load_name(row)}: {printable(error)}")


def _cells(row: dict[str, Any]) -> list[str]:
    ttft, tpot, itl = (
        row[name]
        for name in ("time_to_first_token", "time_per_output_token", "inter_token_latency")
    )
    return [
        _load_name(row),
        f"{row['prompt_tokens']:.0f}",
        f"{row['output_tokens']:.0f}",
        f"{row['failed']}/{row['requests']}",
        f"{row['requests_per_second']:.2f}",
        f"{row['goodput']:.2f}",
        f"{row['tokens_per_second']:.1f}",
        *(f"{ttft[name]:.0f}" for name in ("p50", "p99")),
        *(f"{tpot[name]:.1f}" for name in ("p50", "p99")),
        *(f"{itl[name]:.1f}" for name in ("mean", "p50", "p99")),
    ]


def _load_name(row: dict[str, Any]) -> str:
    if "count" in row:
        return f"{row['count']} streams" if row["count"] != 1 else "1 stream"
    return f"{row['per_second']:g}/s {row['arrivals']}"
