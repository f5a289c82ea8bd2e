"""The options of `mrs serve`, put together of flags, environment and file."""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import typer

    from mrs.server.configuration import ServeConfiguration

_NO_SETTINGS = frozenset({"config", "as_json"})


def given_flags(context: typer.Context) -> dict[str, Any]:
    """What stood on the command line, by the names of the options."""
    return {
        name: _plain(value)
        for name, value in context.params.items()
        if name not in _NO_SETTINGS and _was_given(context, name)
    }


def load(flags: Mapping[str, Any], file: Path | None) -> ServeConfiguration:
    """The options that hold.

    Raises:
        UsageError: one cannot be.
    """
    from mrs.server.configuration_sources import load_configuration

    return load_configuration(flags, os.environ, file).options


def _was_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    return tuple(value) if isinstance(value, list) else value
