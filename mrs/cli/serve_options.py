"""The flags of `mrs serve`. What they may be, and all other ways to give them, is in
`mrs.server.configuration`; a test holds both to the same names and defaults.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mrs.cli.log_output import LogFormat, LogLevel
from mrs.cli.options import KV_CACHE_TYPE_HELP, KvCacheType, SpeculativeKind

MODELS = "Models"
ENGINE = "Engine"
NETWORK = "Network"
ACCESS = "Access"
LIMITS = "Limits of a request"
STORE = "Stored responses"
LOGS = "Logs, metrics, traces"


Lazy = Annotated[
    bool,
    typer.Option(
        help="Load no model before a request needs it.", show_default=False, rich_help_panel=MODELS
    ),
]
IdleUnload = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        metavar="SECONDS",
        help="Unload a model that nobody asked for so long; by default none.",
        rich_help_panel=MODELS,
    ),
]
Alias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=MODEL",
        help="One more name of a served model; can be repeated.",
        rich_help_panel=MODELS,
    ),
]
AcceptAnyModel = Annotated[
    bool,
    typer.Option(
        help="A name that no model has means the first model.",
        show_default=False,
        rich_help_panel=MODELS,
    ),
]
GenerationConfig = Annotated[
    bool,
    typer.Option(
        help="Sample as the model's authors do where a request leaves it open.",
        show_default=False,
        rich_help_panel=MODELS,
    ),
]
ToolFormat = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="How models write calls of tools; by default recognized by the chat template. "
        "docs/tools.md has the names.",
        rich_help_panel=MODELS,
    ),
]
MaxSeqs = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="N",
        help="Answers that are generated at once; more wait.",
        rich_help_panel=ENGINE,
    ),
]
MaxModelLen = Annotated[
    int | None,
    typer.Option(
        min=2,
        metavar="N",
        help="Most tokens of prompt and answer together; by default the model's context.",
        rich_help_panel=ENGINE,
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="By default one for each processor.", rich_help_panel=ENGINE
    ),
]
MaxWaiting = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        help="Answers that wait for their turn; more requests are refused with 429.",
        rich_help_panel=ENGINE,
    ),
]
StepTimeout = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        help="A step of the model that takes longer is cut, and its requests fail.",
        rich_help_panel=ENGINE,
    ),
]
KvCacheBytes = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="BYTES",
        help="Memory for what running answers remember; by default half of what is free once the "
        "weights are loaded.",
        rich_help_panel=ENGINE,
    ),
]
KvCacheTypeOption = Annotated[
    KvCacheType,
    typer.Option(
        "--kv-cache-type",
        help=KV_CACHE_TYPE_HELP,
        rich_help_panel=ENGINE,
    ),
]
PrefixCacheBytes = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="BYTES",
        help="The part of it for finished answers, so that a next turn computes only what is new; "
        "0 for none. By default an eighth of the free memory, at most 1 GiB.",
        rich_help_panel=ENGINE,
    ),
]
Speculative = Annotated[
    SpeculativeKind,
    typer.Option(
        help="Guess tokens and check several in one step: prompt-lookup guesses that what the "
        "newest tokens were followed by before follows again. Answers stay the same; they come "
        "faster where they repeat their prompt, and to few clients at once.",
        rich_help_panel=ENGINE,
    ),
]
DraftModel = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="Guess with a smaller model that has the same tokens.",
        rich_help_panel=ENGINE,
    ),
]
MaxGuesses = Annotated[
    int,
    typer.Option(
        min=1,
        max=15,
        metavar="N",
        help="Guesses for one answer in one step.",
        rich_help_panel=ENGINE,
    ),
]
Host = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        help="Address to listen on; 0.0.0.0 for the network, which needs a key or --insecure.",
        rich_help_panel=NETWORK,
    ),
]
Port = Annotated[
    int,
    typer.Option(
        min=0, max=65535, metavar="PORT", help="0 takes any free port.", rich_help_panel=NETWORK
    ),
]
AllowedHost = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="One more name that clients may use for this server; can be repeated.",
        rich_help_panel=NETWORK,
    ),
]
CorsOrigin = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ORIGIN",
        help="A web page that may use this server, as https://app.example; '*' for any; can be "
        "repeated. By default none.",
        rich_help_panel=NETWORK,
    ),
]
TlsCert = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Speak HTTPS with this certificate (PEM, with its chain).",
        rich_help_panel=NETWORK,
    ),
]
TlsKey = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The key of --tls-cert.", rich_help_panel=NETWORK),
]
ApiKey = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY",
        help="A key that clients must send; can be repeated. Better in a file or in "
        "$MRS_API_KEY: others see the command line. sha256:HEX will do for a key.",
        rich_help_panel=ACCESS,
    ),
]
ApiKeyFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="More keys, one on each line; # begins a comment.",
        rich_help_panel=ACCESS,
    ),
]
AdminKey = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY",
        help="A key that also may unload and reload models and look into the system, which are "
        "off on a network without one; can be repeated.",
        rich_help_panel=ACCESS,
    ),
]
AdminKeyFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="More such keys.", rich_help_panel=ACCESS),
]
PublicHealth = Annotated[
    bool,
    typer.Option(
        help="Answer /health and /docs without a key.", show_default=False, rich_help_panel=ACCESS
    ),
]
Insecure = Annotated[
    bool,
    typer.Option(
        help="Let everybody on the network use the models, without a key.",
        show_default=False,
        rich_help_panel=ACCESS,
    ),
]


def _limit(help_text: str, least: int, most: int | None = None) -> object:
    return typer.Option(min=least, max=most, metavar="N", help=help_text, rich_help_panel=LIMITS)


MaxBodyBytes = Annotated[int, _limit("Bytes of its body.", 1024)]
MaxMessages = Annotated[int, _limit("Messages, or items of an input.", 1)]
MaxTools = Annotated[int, _limit("Tools.", 0, 512)]
MaxChoices = Annotated[int, _limit("Choices (`n`).", 1, 16)]
MaxStops = Annotated[int, _limit("Stop strings.", 0, 16)]
MaxSchemaBytes = Annotated[int, _limit("Bytes of a JSON schema, or of all tools together.", 0)]
MaxHeaderBytes = Annotated[int, _limit("Bytes of its head.", 1024)]
ReadTimeout = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", help="Time that a request may take to arrive.", rich_help_panel=LIMITS
    ),
]
RequestTimeout = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="Time that an answer may take; by default any.",
        rich_help_panel=LIMITS,
    ),
]
KeepAliveInterval = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="MS",
        help="Silence after which a stream gets a comment line; also $KEEP_ALIVE_INTERVAL.",
        rich_help_panel=NETWORK,
    ),
]
DrainTimeout = Annotated[
    float,
    typer.Option(
        min=0.0,
        metavar="SECONDS",
        help="Time that running answers get when the server is to end.",
        rich_help_panel=NETWORK,
    ),
]
ResponsesDb = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Where responses of /v1/responses are kept, by default in your user data folder; "
        "`:memory:` for as long as the server runs.",
        rich_help_panel=STORE,
    ),
]
ResponsesMaxAge = Annotated[
    float,
    typer.Option(metavar="SECONDS", help="How long they are kept.", rich_help_panel=STORE),
]
ResponsesMaxBytes = Annotated[
    int,
    typer.Option(min=1, metavar="BYTES", help="The oldest go beyond this.", rich_help_panel=STORE),
]
LogLevelOption = Annotated[
    LogLevel, typer.Option(help="The least severe lines of the log.", rich_help_panel=LOGS)
]
LogFormatOption = Annotated[
    LogFormat, typer.Option(help="Lines for people, or JSON.", rich_help_panel=LOGS)
]
AccessLog = Annotated[
    bool, typer.Option(help="One line for each request.", show_default=False, rich_help_panel=LOGS)
]
LogPayloads = Annotated[
    bool,
    typer.Option(
        help="Write the bodies of requests to the log as well: prompts are private.",
        show_default=False,
        rich_help_panel=LOGS,
    ),
]
Metrics = Annotated[
    bool,
    typer.Option(
        help="Answer GET /metrics for Prometheus.", show_default=False, rich_help_panel=LOGS
    ),
]
Otel = Annotated[
    bool,
    typer.Option(
        help="Send a span for each request, as $OTEL_EXPORTER_OTLP_ENDPOINT and its like say; "
        "needs mrs-onnx[otel].",
        show_default=False,
        rich_help_panel=LOGS,
    ),
]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Write one line of JSON to stdout when the server is ready."),
]
Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        envvar="MRS_CONFIG",
        help="A TOML file with options, under the names of the flags (max_seqs = 8). Flags come "
        "before the environment, and that before the file.",
    ),
]
