"""``mrs config``: what `mrs serve` would be told, and what it can be told."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mrs.cli.options import JsonOption
from mrs.cli.serve_options import Config

if TYPE_CHECKING:
    from mrs.server.configuration_sources import LoadedConfiguration

config_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Show the options of `mrs serve`: what holds, and what there is.",
)


@config_app.command("show")
def show(
    config: Config = None,
    origin: Annotated[
        bool, typer.Option("--origin", help="Tell where each value comes from.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the options that the environment and a file make, as a TOML file.

    \b
    Examples:
      mrs config show --config mrs.toml
      MRS_MAX_SEQS=4 mrs config show --origin
    """
    from mrs.cli.console import print_json
    from mrs.server.configuration_sources import load_configuration, shown_options

    loaded = load_configuration({}, os.environ, config)
    values = shown_options(loaded)
    if not as_json:
        typer.echo("\n".join(_toml_lines(values, loaded, origin=origin)))
    elif origin:
        print_json(
            {
                option: {"value": value, "origin": loaded.origins[option]}
                for option, value in values.items()
            }
        )
    else:
        print_json(values)


@config_app.command("schema")
def schema() -> None:
    """Write the JSON schema of a file for --config.

    \b
    Example, for editors that check TOML files:
      mrs config schema > mrs.schema.json
    """
    from mrs.cli.console import print_json

    print_json(configuration_schema())


def configuration_schema() -> dict[str, Any]:
    """The JSON schema of a configuration, with the help of each flag."""
    from mrs.server.configuration import ServeConfiguration

    found = ServeConfiguration.model_json_schema()
    found["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    found["title"] = "mrs serve"
    for option, text in option_help().items():
        found["properties"][option]["description"] = text
    return found


def option_help() -> dict[str, str]:
    """What each option of `mrs serve` does, by its name."""
    from mrs.cli.app import app

    command = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    return {
        parameter.name: parameter.help
        for parameter in command.params
        if parameter.name not in ("config", "as_json", "help")
    }


def _toml_lines(values: dict[str, Any], loaded: LoadedConfiguration, *, origin: bool) -> list[str]:
    lines = []
    for option, value in values.items():
        # TOML has no word for nothing: such an option can only be left out.
        line = f"# {option} is not set" if value is None else f"{option} = {_toml(value)}"
        lines.append(f"{line}  # {loaded.origins[option]}" if origin else line)
    return lines


def _toml(value: Any) -> str:
    import json

    # What JSON and TOML write alike: texts, numbers, booleans, and lists of texts.
    return json.dumps(value)
