"""Where the options of a server come from: flags before environment before file before default."""

from __future__ import annotations

import difflib
import tomllib
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mrs.errors import UsageError
from mrs.server.configuration import ServeConfiguration

PREFIX = "MRS_"
FLAG = "flag"
ENVIRONMENT = "environment"
DEFAULT = "default"
# Names that came before this scheme, or that other servers share; each beside the regular one.
_OTHER_VARIABLES = {"repo": "MRS_MODEL_REPO", "keep_alive_interval": "KEEP_ALIVE_INTERVAL"}
_LARGEST_FILE = 1024 * 1024
_LONGEST_SHOWN_VALUE = 60


@dataclass(frozen=True)
class OptionSource:
    """Options that came the same way.

    Attributes:
        kind: ``flag``, ``environment``, or the file's path.
        values: by option.
        names: what the user calls each option there.
    """

    kind: str
    values: Mapping[str, Any]
    names: Mapping[str, str]


@dataclass(frozen=True)
class LoadedConfiguration:
    """A configuration and where each option came from.

    Attributes:
        options: the options.
        origins: for each option: ``flag``, ``environment``, a file's path, or ``default``.
    """

    options: ServeConfiguration
    origins: Mapping[str, str]


def flag_of(option: str) -> str:
    """The flag of an option.

    >>> flag_of("max_seqs")
    '--max-seqs'
    """
    return "--" + option.replace("_", "-")


def variables_of(option: str) -> tuple[str, ...]:
    """The environment variables of an option; the first that is set counts.

    >>> variables_of("max_seqs")
    ('MRS_MAX_SEQS',)
    """
    other = _OTHER_VARIABLES.get(option)
    return (PREFIX + option.upper(), *([other] if other else []))


def load_configuration(
    flags: Mapping[str, Any], environment: Mapping[str, str], file: Path | None = None
) -> LoadedConfiguration:
    """Put the options together and check them.

    Args:
        flags: options that were given on the command line.
        environment: all variables.
        file: a TOML file, if one was given.

    Raises:
        UsageError: an option does not exist or has a value that it cannot have, or the file cannot
            be read.
    """
    sources = [
        OptionSource(FLAG, flags, {option: flag_of(option) for option in flags}),
        _environment_source(environment),
    ]
    if file is not None:
        sources.append(_file_source(file))
    values: dict[str, Any] = {}
    origins: dict[str, OptionSource] = {}
    for source in sources:
        for option, value in source.values.items():
            if option not in values:
                values[option], origins[option] = value, source
    try:
        options = ServeConfiguration.model_validate(values)
    except ValidationError as error:
        details = error.errors(include_url=False)[0]
        raise _bad_value(details, origins) from None
    return LoadedConfiguration(
        options,
        {
            option: origins[option].kind if option in origins else DEFAULT
            for option in ServeConfiguration.model_fields
        },
    )


def _environment_source(environment: Mapping[str, str]) -> OptionSource:
    values: dict[str, Any] = {}
    names: dict[str, str] = {}
    for option in ServeConfiguration.model_fields:
        for variable in variables_of(option):
            text = environment.get(variable, "").strip()
            if text:
                values[option] = _from_text(option, text)
                names[option] = variable
                break
    return OptionSource(ENVIRONMENT, values, names)


def _from_text(option: str, text: str) -> Any:
    """Lists are separated by commas."""
    if option in LIST_OPTIONS:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text


def _is_list(option: str) -> bool:
    return typing.get_origin(ServeConfiguration.model_fields[option].annotation) is tuple


LIST_OPTIONS = frozenset(filter(_is_list, ServeConfiguration.model_fields))
"""The options that can be given several times."""


def _file_source(file: Path) -> OptionSource:
    options = {key.replace("-", "_"): (key, value) for key, value in _read(file).items()}
    for option, (key, _) in options.items():
        if option not in ServeConfiguration.model_fields:
            raise _unknown(key, file)
    return OptionSource(
        str(file),
        {option: value for option, (_, value) in options.items()},
        {option: f"{key} in {file}" for option, (key, _) in options.items()},
    )


def _read(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > _LARGEST_FILE:
            raise UsageError(f"{file} is too large for a configuration.")
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"The configuration {file} cannot be read: {error.strerror}.",
            hint="Check the path after --config.",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not TOML: {error}.") from error


def _unknown(key: str, file: Path) -> UsageError:
    near = difflib.get_close_matches(key.replace("-", "_"), ServeConfiguration.model_fields, 1, 0.5)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    return UsageError(
        f"{file} has the option {key!r:.80}, which does not exist.",
        hint=f"{hint}`mrs config schema` tells all options.",
    )


def _bad_value(details: ErrorDetails, origins: Mapping[str, OptionSource]) -> UsageError:
    if not details["loc"]:
        reason = str(details.get("ctx", {}).get("error", details["msg"]))
        return UsageError(f"The options do not fit together: {reason}.")
    option = str(details["loc"][0])
    source = origins[option]
    reason = str(details.get("ctx", {}).get("error", details["msg"]))
    value = "" if option in SECRET_OPTIONS else f" {_shown(details['input'])}"
    return UsageError(
        f"{source.names[option]} cannot be{value}: {reason[:1].lower() + reason[1:]}.",
        hint=f"See `mrs serve --help` on {flag_of(option)}.",
        param=option,
    )


SECRET_OPTIONS = frozenset({"api_key", "admin_key"})
"""The options whose values are never shown."""


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN_VALUE else text[:_LONGEST_SHOWN_VALUE] + "..."


def shown_options(
    loaded: LoadedConfiguration, options: Iterable[str] | None = None
) -> dict[str, Any]:
    """The options as JSON values, secrets as asterisks."""
    values = loaded.options.model_dump(mode="json")
    for option in SECRET_OPTIONS:
        values[option] = ["***"] * len(values[option])
    return {option: values[option] for option in options or values}
