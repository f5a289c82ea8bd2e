"""String methods that templates may call, each paid for before it runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from string import Formatter
from typing import Any, cast

from mrs.chat_template.budget import (
    TemplateLimitError,
    settled,
    spend,
    spend_characters,
    weigh,
)

_WIDE = re.compile("[0-9]{4}")
_LINEAR = frozenset(
    (
        *("capitalize", "casefold", "count", "endswith", "find", "index", "isalnum", "isalpha"),
        *("isascii", "isdecimal", "isdigit", "islower", "isnumeric", "isspace", "istitle"),
        *("isupper", "lower", "lstrip", "partition", "removeprefix", "removesuffix", "rstrip"),
        *("startswith", "strip", "swapcase", "title", "upper"),
    )
)


def join(separator: str, values: Any) -> str:
    """``separator.join(values)``."""
    parts = settled(values)
    if not isinstance(parts, str):
        parts = list(parts)
    spend_characters(len(separator) * len(parts))
    return separator.join(parts)


def replace(text: str, old: str, new: str, count: int = -1) -> str:
    """``text.replace(old, new, count)``."""
    spend_characters(len(text))
    found = text.count(old)
    changed = found if count < 0 else min(found, count)
    spend_characters(changed * len(new))
    return text.replace(old, new, count)


def split(text: str, sep: str | None = None, maxsplit: int = -1) -> list[str]:
    """``text.split(sep, maxsplit)``."""
    _pay_for_pieces(text, sep, maxsplit)
    return text.split(sep, maxsplit)


def rsplit(text: str, sep: str | None = None, maxsplit: int = -1) -> list[str]:
    """``text.rsplit(sep, maxsplit)``."""
    _pay_for_pieces(text, sep, maxsplit)
    # A search from the right compares the whole separator at every place.
    spend_characters(len(text) * len(sep or " "))
    return text.rsplit(sep, maxsplit)


def splitlines(text: str, keepends: bool = False) -> list[str]:
    """``text.splitlines(keepends)``."""
    spend(len(text) >> 2)
    return text.splitlines(keepends)


def _pay_for_pieces(text: str, sep: str | None, maxsplit: int) -> None:
    spend_characters(len(text))
    pieces = text.count(sep) if sep else len(text) >> 2
    spend(pieces if maxsplit < 0 else min(pieces, maxsplit))


def _pay_for_linear(text: str, arguments: tuple[Any, ...]) -> None:
    spend_characters(len(text))
    for argument in arguments:
        weigh(argument)
        if isinstance(argument, str) and len(argument) > 16:
            # A set of characters to strip is searched for each character of the text.
            spend_characters(len(text) * (len(argument) >> 4))


_OWN: Mapping[str, Callable[..., Any]] = {
    "join": join,
    "replace": replace,
    "rsplit": rsplit,
    "split": split,
    "splitlines": splitlines,
}

STRING_METHODS = _LINEAR | _OWN.keys()
"""Names of the methods that templates may call on a string, besides ``format``."""


def call_string_method(text: str, name: str, *args: Any, **kwargs: Any) -> Any:
    """Call a method of `STRING_METHODS`."""
    if name in _OWN:
        return _OWN[name](text, *args, **kwargs)
    _pay_for_linear(text, args)
    return getattr(text, name)(*args, **kwargs)


def check_brace_format(template: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Pay for ``template.format(*args, **kwargs)``.

    Raises:
        TemplateLimitError: a field is 1000 or more characters wide, or of a computed width.
    """
    specs = [spec or "" for _, field, spec, _ in Formatter().parse(template) if field is not None]
    if any("{" in spec or _WIDE.search(spec) for spec in specs):
        raise TemplateLimitError("it formats a field that may be too wide")
    spend_characters(len(template) + 1000 * len(specs))
    weigh((args, kwargs), len(specs) + 1)


def percent_format(template: str, values: Any) -> str:
    """``template % values``.

    Raises:
        TemplateLimitError: a field may be 1000 or more characters wide.
    """
    if "*" in template or _WIDE.search(template):
        raise TemplateLimitError("it formats a field that may be too wide")
    fields = template.count("%")
    spend_characters(len(template) + 1000 * fields)
    weigh(values, fields + 1)
    return cast("str", template % values)
