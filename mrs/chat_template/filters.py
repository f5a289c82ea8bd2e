"""Filters that templates may use: those of Jinja that chat templates need, each one paid for.

What is missing here does not exist for a template. A filter that looks at all of its input weighs
it first; a lazy one counts the values as they pass; one that can make more than it was given works
out how much before it makes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from jinja2 import Environment, filters, pass_context, pass_environment
from jinja2.runtime import Context
from markupsafe import Markup, escape

from mrs.chat_template import strings
from mrs.chat_template.budget import (
    TemplateLimitError,
    counted,
    settled,
    spend,
    spend_characters,
    weigh,
)
from mrs.chat_template.text import text_of

_MAX_JSON_DEPTH = 64
_MAX_JSON_INDENT = 256
_MAX_PRECISION = 30
# Sorting compares each value about log2(n) times.
_SORT = 20
_NOT_ASCII = re.compile("[^\x00-\x7f\ud800-\udfff]")


def tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as `json.dumps` writes it: with spaces after separators, and no HTML escapes.

    Raises:
        TemplateLimitError: the indent or the depth is beyond any use.
    """
    width = indent or 0
    if not isinstance(width, int) or width > _MAX_JSON_INDENT:
        raise TemplateLimitError(f"tojson may indent by {_MAX_JSON_INDENT} at most")
    if separators is not None and len("".join(separators)) > 16:
        raise TemplateLimitError("tojson was given separators that are too long")
    if _deeper_than(value, _MAX_JSON_DEPTH):
        raise TemplateLimitError(f"tojson writes {_MAX_JSON_DEPTH} levels at most")
    weigh(value, 2 + width * _MAX_JSON_DEPTH // 32)
    text = json.dumps(
        value, ensure_ascii=False, indent=indent, separators=separators, sort_keys=sort_keys
    )
    # Lone surrogates stay as they are: the prompt encoder marks user text with them.
    return _NOT_ASCII.sub(_json_escape, text) if ensure_ascii else text


def _json_escape(match: re.Match[str]) -> str:
    return json.dumps(match.group())[1:-1]


def _deeper_than(value: Any, levels: int) -> bool:
    layer = [value]
    for _ in range(levels):
        layer = [child for item in layer for child in _children(item)]
        spend(len(layer))
    return bool(layer)


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, (list, tuple)) else ()


def _length(value: Any) -> int:
    return len(value)


def _list(value: Any) -> list[Any]:
    return list(counted(value))


@pass_environment
def _join(environment: Environment, value: Any, d: Any = "", attribute: Any = None) -> str:
    values = counted(value)
    if attribute is not None:
        getter = filters.make_attrgetter(environment, attribute)
        values = (getter(item) for item in values)
    return strings.join(str(text_of(d)), [str(text_of(item)) for item in values])


def _replace(value: Any, old: Any, new: Any, count: int | None = None) -> str:
    text, before, after = (str(text_of(part)) for part in (value, old, new))
    return strings.replace(text, before, after, -1 if count is None else count)


def _trim(value: Any, chars: str | None = None) -> str:
    return cast("str", strings.call_string_method(text_of(value), "strip", chars))


def _indent(value: Any, width: Any = 4, first: bool = False, blank: bool = False) -> str:
    text = text_of(value)
    size = len(width) if isinstance(width, str) else int(width)
    spend_characters((text.count("\n") + 2) * max(size, 0))
    return filters.do_indent(text, width, first, blank)


def _title(value: Any) -> str:
    text = text_of(value)
    spend(len(text) >> 2)
    return filters.do_title(text)


def _reverse(value: Any) -> Any:
    return filters.do_reverse(settled(value))


def _dictsort(
    value: Any, case_sensitive: bool = False, by: Any = "key", reverse: bool = False
) -> Any:
    weigh(value, _SORT)
    return filters.do_dictsort(value, case_sensitive, by, reverse)


def _round(value: Any, precision: int = 0, method: Any = "common") -> Any:
    _need_number(value)
    if not isinstance(precision, int) or abs(precision) > _MAX_PRECISION:
        raise TemplateLimitError(f"round takes {_MAX_PRECISION} digits at most")
    return filters.do_round(value, precision, method)


def _int(value: Any, default: int = 0, base: int = 10) -> int:
    weigh(value)
    if isinstance(value, str) and len(value) > 1000:
        return default
    return filters.do_int(value, default, base)


def _float(value: Any, default: float = 0.0) -> float:
    weigh(value)
    return filters.do_float(value, default)


def _need_number(value: Any) -> None:
    if not isinstance(value, (int, float)):
        raise TypeError(f"expected a number, not {type(value).__name__}")


def _format(value: Any, *args: Any, **kwargs: Any) -> str:
    return strings.percent_format(text_of(value), kwargs or args)


def _escape(value: Any) -> str:
    weigh(value)
    return escape(value)


def _safe(value: Any) -> str:
    return Markup(text_of(value))


def _lazy(name: str) -> Callable[..., Any]:
    """A filter of Jinja that takes values one by one and pays for each, and for its path."""
    function = filters.FILTERS[name]

    @pass_context
    def run(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
        path = kwargs.get("attribute", args[0] if args else "")
        steps = 2 + (path.count(".") if isinstance(path, str) else 0)
        for argument in (*args, *kwargs.values()):
            weigh(argument)
        # Jinja takes anything false for empty, even where it cannot be iterated.
        values = counted(value, steps) if value else value
        return function(context, values, *args, **kwargs)

    return run


def _ordering(name: str) -> Callable[..., Any]:
    """A filter of Jinja's that compares all values with each other."""
    function = filters.FILTERS[name]

    @pass_environment
    def run(environment: Environment, value: Any, *args: Any, **kwargs: Any) -> Any:
        return function(environment, settled(value, _SORT), *args, **kwargs)

    return run


FILTERS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "capitalize": lambda value: text_of(value).capitalize(),
    "count": _length,
    "d": filters.do_default,
    "default": filters.do_default,
    "dictsort": _dictsort,
    "e": _escape,
    "escape": _escape,
    "first": filters.FILTERS["first"],
    "float": _float,
    "format": _format,
    "indent": _indent,
    "int": _int,
    "items": filters.do_items,
    "join": _join,
    "last": filters.do_last,
    "length": _length,
    "list": _list,
    "lower": lambda value: text_of(value).lower(),
    "map": _lazy("map"),
    "max": _ordering("max"),
    "min": _ordering("min"),
    "reject": _lazy("reject"),
    "rejectattr": _lazy("rejectattr"),
    "replace": _replace,
    "reverse": _reverse,
    "round": _round,
    "safe": _safe,
    "select": _lazy("select"),
    "selectattr": _lazy("selectattr"),
    "sort": _ordering("sort"),
    "string": text_of,
    "title": _title,
    "tojson": tojson,
    "trim": _trim,
    "unique": _ordering("unique"),
    "upper": lambda value: text_of(value).upper(),
}
