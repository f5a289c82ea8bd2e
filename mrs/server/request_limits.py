"""How many things one request may hold, whatever the dialect calls them."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

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
    _check_count("prompt", _length(_field(request, "prompt")), limits.prompts, "prompts")
    for name in _SCHEMAS:
        _check_schema(name, _field(request, name), limits.schema_bytes)


def _field(request: object, name: str) -> Any:
    return getattr(request, name, None)


def _length(value: Any) -> int:
    """Items of a list; token ids are no items, but one text."""
    if not isinstance(value, list | tuple) or not value or isinstance(value[0], int):
        return 0
    return len(value)


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
    size = len(to_json(value, fallback=str))  # Whole numbers of any size are no error here.
    if size > limit:
        raise TooManyError(
            f"'{name}' has {size} bytes as JSON; this server takes {limit}.", param=name
        )
