"""How many things one request may hold, whatever the dialect calls them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from pydantic import BaseModel

from mrs.errors import RequestError
from mrs.server.settings import RequestLimits

# Fields of all dialects that hold lists, or how many there are to be.
_MESSAGES = ("messages", "input")
_TOOLS = ("tools", "functions")
_STOPS = ("stop", "stop_sequences")
_CHOICES = ("n", "best_of")
_SCHEMAS = (
    *("tools", "functions", "response_format", "text", "grammar"),
    *("output_config", "output_format"),
)


class TooManyError(RequestError):
    """A request holds more of something than the server takes."""

    code = "limit_exceeded"


def check_limits(request: object, limits: RequestLimits) -> None:
    """Check a parsed request against what the server takes.

    Raises:
        TooManyError: it holds too many of something.
    """
    for names, limit, what in (
        (_MESSAGES, limits.messages, "messages or items"),
        (_TOOLS, limits.tools, "tools"),
        (_STOPS, limits.stops, "stop strings"),
    ):
        for name in names:
            _check_count(name, _length(_field(request, name)), limit, what)
    for name in _CHOICES:
        value = _field(request, name)
        _check_count(name, value if isinstance(value, int) else 0, limits.choices, "choices")
    prompt = _field(request, "prompt")
    # A list of numbers is one prompt of token ids.
    if isinstance(prompt, Sequence) and prompt and not isinstance(prompt[0], int):
        _check_count("prompt", _length(prompt), limits.prompts, "prompts")
    for name in _SCHEMAS:
        _check_schema(name, _field(request, name), limits.schema_bytes)


def _field(request: object, name: str) -> Any:
    return getattr(request, name, None)


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list | tuple) else 0


def _check_count(name: str, count: int, limit: int, what: str) -> None:
    if count > limit:
        raise TooManyError(
            f"'{name}' has {count} {what}; this server takes {limit}."
            if what != "choices"
            else f"'{name}' is {count}; this server takes {limit}.",
            param=name,
        )


def _check_schema(name: str, value: Any, limit: int) -> None:
    if value is None or isinstance(value, str):
        return
    size = len(orjson.dumps(value, default=_plain))
    if size > limit:
        raise TooManyError(
            f"'{name}' has {size} bytes as JSON; this server takes {limit}.", param=name
        )


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return str(value)
