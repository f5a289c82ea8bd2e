"""``mrs serve``: models answer OpenAI and Anthropic clients over HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import typer

from mrs.cli import serve_options as options
from mrs.cli.exit_codes import EXIT_INTERRUPTED
from mrs.cli.log_output import LogFormat, LogLevel
from mrs.cli.model_argument import ModelArguments, QuantizationOption, find_model
from mrs.cli.options import (
    KvCacheType,
    Quantization,
    RepoOption,
    SpeculativeKind,
    open_repository,
)

if TYPE_CHECKING:
    import socket

    from mrs.server.configuration import ServeConfiguration
    from mrs.server.model_source import ModelSource, RepositoryModel
    from mrs.server.resident_models import ResidentModels
    from mrs.server.settings import ServerSettings


def serve(
    context: typer.Context,
    models: ModelArguments = None,
    repo: RepoOption = None,
    quant: QuantizationOption = Quantization.AUTO,
    lazy: options.Lazy = False,
    idle_unload: options.IdleUnload = None,
    alias: options.Alias = None,
    accept_any_model: options.AcceptAnyModel = False,
    generation_config: options.GenerationConfig = True,
    tool_format: options.ToolFormat = None,
    max_seqs: options.MaxSeqs = 16,
    max_model_len: options.MaxModelLen = None,
    max_waiting: options.MaxWaiting = 256,
    step_timeout: options.StepTimeout = 120.0,
    threads: options.Threads = None,
    kv_cache_bytes: options.KvCacheBytes = None,
    kv_cache_type: options.KvCacheTypeOption = KvCacheType.FP32,
    prefix_cache_bytes: options.PrefixCacheBytes = None,
    speculative: options.Speculative = SpeculativeKind.OFF,
    draft_model: options.DraftModel = None,
    max_guesses: options.MaxGuesses = 6,
    host: options.Host = "127.0.0.1",
    port: options.Port = 1234,
    allowed_host: options.AllowedHost = None,
    cors_origin: options.CorsOrigin = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    keep_alive_interval: options.KeepAliveInterval = 10_000,
    drain_timeout: options.DrainTimeout = 25.0,
    api_key: options.ApiKey = None,
    api_key_file: options.ApiKeyFile = None,
    admin_key: options.AdminKey = None,
    admin_key_file: options.AdminKeyFile = None,
    public_health: options.PublicHealth = True,
    insecure: options.Insecure = False,
    max_body_bytes: options.MaxBodyBytes = 32 * 1024 * 1024,
    max_header_bytes: options.MaxHeaderBytes = 64 * 1024,
    max_messages: options.MaxMessages = 4096,
    max_tools: options.MaxTools = 128,
    max_choices: options.MaxChoices = 16,
    max_stops: options.MaxStops = 16,
    max_schema_bytes: options.MaxSchemaBytes = 256 * 1024,
    read_timeout: options.ReadTimeout = 60.0,
    request_timeout: options.RequestTimeout = None,
    responses_db: options.ResponsesDb = None,
    responses_max_age: options.ResponsesMaxAge = 30 * 24 * 3600.0,
    responses_max_bytes: options.ResponsesMaxBytes = 1024 * 1024 * 1024,
    log_level: options.LogLevelOption = LogLevel.INFO,
    log_format: options.LogFormatOption = LogFormat.TEXT,
    access_log: options.AccessLog = True,
    log_payloads: options.LogPayloads = False,
    metrics: options.Metrics = True,
    otel: options.Otel = False,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Serve models to the clients of OpenAI and Anthropic.

    MODEL is in the model repository, or is exported into it first: a .gguf file, a model's folder,
    ORG/NAME on the Hub, or a package (see `mrs export --help`). With several, the first one is
    loaded at once and the others when a request names them; where memory is short for one, the one
    that was not used for longest goes.

    Clients use http://127.0.0.1:1234/v1 as their base URL and, unless there is --api-key, any text
    as their key; /docs shows what the server understands, /health how it does, /metrics how much.
    Requests are answered together, up to --max-seqs at once.

    The first Ctrl-C or SIGTERM refuses new requests and finishes those that run; a second one
    stops at once.

    \b
    Examples:
      mrs serve smollm2
      mrs serve ./model.gguf --port 8080
      mrs serve smollm2 minilm --idle-unload 600 --alias gpt-4o-mini=smollm2
      mrs serve HuggingFaceTB/SmolLM2-135M-Instruct --accept-any-model
      mrs serve smollm2 --host 0.0.0.0 --api-key-file keys.txt
      mrs serve --config mrs.toml

    Each option but --json and --config is also a variable, MRS_MAX_SEQS for --max-seqs, with
    commas between several values, and a key of the file; `mrs config show` tells what holds.
    """
    from mrs.cli.configuration import given_flags, load
    from mrs.server.configured import check_tls, server_settings
    from mrs.server.http_server import bind
    from mrs.server.tracing import require_tracing

    loaded = load(given_flags(context), config)
    # All that is quickly refused, before a model is exported or loaded.
    models_of(loaded)
    check_tls(loaded)
    if loaded.otel:
        require_tracing()
    with bind(loaded.host, loaded.port) as bound:
        settings = server_settings(loaded, bound.getsockname()[0])
        _warn(loaded, bound)
        finished = _serve(bound, loaded, settings, as_json=as_json)
    if not finished:
        raise typer.Exit(EXIT_INTERRUPTED)


def models_of(loaded: ServeConfiguration) -> Sequence[str]:
    """The models to serve.

    Raises:
        UsageError: there are none.
    """
    from mrs.errors import UsageError

    if not loaded.models:
        raise UsageError(
            "No model is named.",
            hint="Name one, as in `mrs serve smollm2`, or with `models` in the file of --config.",
        )
    return loaded.models


def _warn(loaded: ServeConfiguration, bound: socket.socket) -> None:
    from mrs.cli.console import note
    from mrs.server.settings import is_loopback

    address = bound.getsockname()[0]
    if loaded.insecure and not is_loopback(address):
        note(
            f"warning: {address} can be reached from other machines, and --insecure asks for no "
            "key: whoever reaches it can use the models."
        )
    if loaded.log_payloads:
        note("warning: --log-payloads writes all prompts to the log.")


def _serve(
    bound: socket.socket, loaded: ServeConfiguration, settings: ServerSettings, *, as_json: bool
) -> bool:
    """Find the models and serve until stopped; return whether all requests were finished."""
    from mrs.server.configured import engine_options
    from mrs.server.model_names import ModelNames
    from mrs.server.model_source import repository_models
    from mrs.server.resident_models import ResidentModels

    repository, quant = open_repository(loaded.repo), Quantization(loaded.quant)
    int8_cache = KvCacheType(loaded.kv_cache_type) is KvCacheType.INT8
    versions = [
        find_model(each, repository, quant, silent=as_json, int8_cache=int8_cache)
        for each in loaded.models
    ]
    draft = None
    if loaded.draft_model is not None:
        draft = find_model(loaded.draft_model, repository, quant, silent=as_json)
    sources = repository_models(versions, engine_options(loaded, draft))
    names = ModelNames(
        [source.description for source in sources],
        aliases=model_aliases(loaded.alias, zip(loaded.models, sources, strict=True)),
        accept_any=loaded.accept_any_model,
    )
    catalog = ResidentModels(sources, names, idle_unload=loaded.idle_unload)
    try:
        if not loaded.lazy:
            _load(catalog, sources[0], silent=as_json)
        return _run(bound, catalog, sources, loaded, settings, as_json=as_json)
    finally:
        catalog.close()


def model_aliases(
    given: Sequence[str], models: Iterable[tuple[str, ModelSource]]
) -> dict[str, str]:
    """The aliases that the user gave, and the models as the user wrote them.

    Raises:
        UsageError: an alias is not NAME=MODEL.
    """
    from mrs.errors import UsageError

    aliases = {
        written: source.description.name
        for written, source in models
        if written != source.description.name
    }
    for each in given:
        alias, equals, target = each.partition("=")
        if not (alias and equals and target):
            raise UsageError(
                f"--alias is {each!r}; it must be NAME=MODEL.",
                hint="For example --alias gpt-4o-mini=smollm2.",
            )
        aliases[alias] = aliases.get(target, target)
    return aliases


def _load(catalog: ResidentModels, source: RepositoryModel, *, silent: bool) -> None:
    from mrs.cli.progress import make_progress

    with make_progress(silent=silent).phase(f"Load {source.version.reference}"):
        catalog.load_now()


def _run(
    bound: socket.socket,
    catalog: ResidentModels,
    sources: Sequence[RepositoryModel],
    loaded: ServeConfiguration,
    settings: ServerSettings,
    *,
    as_json: bool,
) -> bool:
    from mrs.cli.log_output import log_to_stderr
    from mrs.cli.serve_announcement import Announcement
    from mrs.server.app import create_app
    from mrs.server.configured import http_options
    from mrs.server.http_server import HttpServer, url_of
    from mrs.server.lifecycle import Lifecycle

    lifecycle = Lifecycle(catalog)
    log_to_stderr(LogLevel(loaded.log_level), LogFormat(loaded.log_format))
    url = url_of(bound, secure=loaded.tls_cert is not None)

    def ready() -> None:
        catalog.start()
        first = catalog.states()[0].description
        keys = bool(settings.access.keys)
        announcement = Announcement(url, sources, first, loaded.max_seqs, needs_key=keys)
        announcement.as_json() if as_json else announcement.for_people()

    app = create_app(catalog, settings, lifecycle)
    server = HttpServer(app, lifecycle, on_ready=ready, options=http_options(loaded))
    server.run([bound])
    return not server.stopped_at_once
