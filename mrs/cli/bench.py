"""``mrs bench``: how fast a model, or a server, is."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from mrs.cli.model_argument import QuantizationOption
from mrs.cli.options import (
    DraftModelOption,
    KvCacheType,
    KvCacheTypeOption,
    Quantization,
    RepoOption,
    SpeculativeKind,
    SpeculativeOption,
    complete_reference,
)

SERVER_PANEL = "Load test of a server"
_OF_MODELS = (
    *("depth", "batch", "repetitions", "threads", "kv_cache_type", "speculative", "draft_model"),
    *("repo", "quant"),
)
_OF_SERVERS = ("streams", "rate", "arrivals", "requests", "endpoint", "slo_ttft", "slo_tpot")


class Output(StrEnum):
    """How results are written."""

    TABLE = "table"
    JSON = "json"


class ArrivalKind(StrEnum):
    """How requests are spread over time."""

    POISSON = "poisson"
    FIXED = "fixed"


class EndpointKind(StrEnum):
    """Which API is asked."""

    CHAT = "chat"
    COMPLETIONS = "completions"


def bench(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="A model of the repository, or a source; with --serve, the server's name for it.",
            autocompletion=complete_reference,
        ),
    ] = None,
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
    kv_cache_type: KvCacheTypeOption = KvCacheType.FP32,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="How results are written.")
    ] = Output.TABLE,
    speculative: SpeculativeOption = SpeculativeKind.OFF,
    draft_model: DraftModelOption = None,
    repo: RepoOption = None,
    quant: QuantizationOption = Quantization.AUTO,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --output json.")] = False,
    serve: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            rich_help_panel=SERVER_PANEL,
            help="Measure a running OpenAI-compatible server, of any make, as its clients see it.",
        ),
    ] = None,
    streams: Annotated[
        str | None,
        typer.Option(
            metavar="N,...",
            rich_help_panel=SERVER_PANEL,
            help="Clients that ask again as soon as they have an answer (1).",
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="R,...",
            rich_help_panel=SERVER_PANEL,
            help="Requests per second instead, whether or not the server keeps up.",
        ),
    ] = None,
    arrivals: Annotated[
        ArrivalKind,
        typer.Option(
            rich_help_panel=SERVER_PANEL, help="How these are spread: as users come, or evenly."
        ),
    ] = ArrivalKind.POISSON,
    requests: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            rich_help_panel=SERVER_PANEL,
            help="Requests of each test; by default 4 of each stream, and at least 16.",
        ),
    ] = None,
    endpoint: Annotated[
        EndpointKind, typer.Option(rich_help_panel=SERVER_PANEL, help="Which API is asked.")
    ] = EndpointKind.CHAT,
    slo_ttft: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="MS",
            rich_help_panel=SERVER_PANEL,
            help="Most time to the first token for an answer to count as good.",
        ),
    ] = None,
    slo_tpot: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="MS",
            rich_help_panel=SERVER_PANEL,
            help="Most time between tokens, on average, for the same.",
        ),
    ] = None,
    api_key: Annotated[
        str,
        typer.Option(
            metavar="KEY",
            envvar="OPENAI_API_KEY",
            show_default=False,
            rich_help_panel=SERVER_PANEL,
            help="Sent to the server.",
        ),
    ] = "",
) -> None:
    """Measure how fast a model computes prompts (pp) and generates (tg), in tokens per second.

    Columns and options are llama-bench's. What is measured is what a client gets, without HTTP:
    scheduler, sampling and text included. Each test runs once to warm up.

    With --serve, requests of --prompt random words are sent to a server instead, each answered
    with --generate tokens, and what clients feel is measured: TTFT (time to first token), TPOT
    (time per output token), ITL (time between two events), requests and tokens per second, and
    goodput (answers per second within --slo-ttft and --slo-tpot).

    \b
    Examples:
      mrs bench smollm2
      mrs bench smollm2 -p 512 -n 128 -d 0,2048 -b 1,4,16 -r 5
      mrs bench smollm2:1 -p 0 -n 64 -b 16 -o json
      mrs bench --serve http://127.0.0.1:1234 -p 128 -n 128 --streams 1,4,16,64
      mrs bench --serve http://127.0.0.1:1234 --rate 2,4,8 --requests 100 --slo-ttft 500
    """
    as_json = as_json or output is Output.JSON
    if serve is not None:
        from mrs.cli.bench_server import ServerBench, bench_server

        _refuse_given(context, _OF_MODELS, "with --serve")
        server = ServerBench(
            url=serve,
            model=model,
            prompt_tokens=prompt_tokens,
            generated_tokens=generated_tokens,
            streams=streams,
            rate=rate,
            arrivals=arrivals.value,
            requests=requests,
            endpoint=endpoint.value,
            slo_ttft=slo_ttft,
            slo_tpot=slo_tpot,
            api_key=api_key,
        )
        bench_server(server, as_json=as_json)
        return

    from mrs.cli.bench_model import ModelBench, bench_model

    _refuse_given(context, _OF_SERVERS, "without --serve")
    options = ModelBench(
        model=_required(model),
        prompt_tokens=prompt_tokens,
        generated_tokens=generated_tokens,
        depth=depth,
        batch=batch,
        repetitions=repetitions,
        threads=threads,
        kv_cache_type=kv_cache_type,
        speculative=speculative,
        draft_model=draft_model,
        repo=repo,
        quant=quant,
    )
    bench_model(options, as_json=as_json)


def _refuse_given(context: typer.Context, names: tuple[str, ...], why: str) -> None:
    """An option that would do nothing is a mistake, and is told."""
    from mrs.errors import UsageError

    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = "--" + name.replace("_", "-")
            raise UsageError(f"{option} means nothing {why}.", hint="See mrs bench --help.")


def _required(model: str | None) -> str:
    from mrs.errors import UsageError

    if model is None:
        raise UsageError(
            "There is nothing to measure: MODEL is missing.",
            hint="Name a model, or a server with --serve URL.",
        )
    return model
