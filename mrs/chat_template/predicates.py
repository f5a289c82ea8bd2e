"""Tests (``x is ...``) that templates may use: Jinja's, those that compare being paid for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import jinja2.tests

from mrs.chat_template.budget import weigh

_Test = Callable[..., bool]
_JINJA_TESTS = cast("Mapping[str, _Test]", jinja2.tests.TESTS)
_COMPARISONS = (
    *("==", "eq", "equalto", "!=", "ne", "<", "lt", "lessthan", "<=", "le", ">", "gt"),
    *("greaterthan", ">=", "ge", "lower", "upper"),
)
_ARITHMETIC = ("odd", "even", "divisibleby")
_CONSTANT_TIME = (
    *("boolean", "callable", "defined", "escaped", "false", "filter", "float", "integer"),
    *("iterable", "mapping", "none", "number", "sameas", "sequence", "string", "test", "true"),
    "undefined",
)


def weigh_haystack(values: Any) -> None:
    """Pay for looking a value up in ``values``."""
    if not isinstance(values, Mapping):
        weigh(values)


def _weighed(function: _Test) -> _Test:
    def test(value: Any, *args: Any) -> bool:
        weigh(value)
        weigh(args)
        return function(value, *args)

    return test


def _of_numbers(function: _Test) -> _Test:
    def test(value: Any, *args: Any) -> bool:
        if not all(isinstance(number, (int, float)) for number in (value, *args)):
            raise TypeError("only numbers can be divided")
        return function(value, *args)

    return test


def _in(value: Any, values: Any) -> bool:
    weigh(value)
    weigh_haystack(values)
    return value in values


TESTS: dict[str, _Test] = {
    **{name: _JINJA_TESTS[name] for name in _CONSTANT_TIME},
    **{name: _weighed(_JINJA_TESTS[name]) for name in _COMPARISONS},
    **{name: _of_numbers(_JINJA_TESTS[name]) for name in _ARITHMETIC},
    "in": _in,
}
