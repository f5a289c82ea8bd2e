"""The Jinja environment that chat templates run in."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from jinja2 import pass_context
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context, LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from mrs.chat_template import strings
from mrs.chat_template.budget import (
    CHARACTERS_PER_STEP_BITS,
    TemplateLimitError,
    spend,
    spend_characters,
    weigh,
)
from mrs.chat_template.filters import FILTERS
from mrs.chat_template.predicates import TESTS
from mrs.chat_template.syntax import MAX_INTEGER_BITS, METERS, GenerationTag
from mrs.chat_template.text import text_of

MAX_RANGE = 100_000

_STEPS_PER_CALL = 4

# What compiled templates pass along for functions that want the context.
_JINJA_ARGUMENTS = ("_loop_vars", "_block_vars")
_DICT_METHODS = frozenset({"get", "items", "keys", "values"})
_LIST_METHODS = frozenset({"count", "index"})
_MAX_REFUSAL_CHARACTERS = 2000
_STRFTIME_WIDTH = re.compile("%[^a-zA-Z%]*[0-9]{3}")


class RefusalError(Exception):
    """The template itself refused the messages, in its own words."""


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """An immutable sandbox in which names are allowed one by one and work is paid for.

    Nothing of Python's object model can be reached: attributes with an underscore do not exist, and
    of strings, lists and dicts only the methods that leave them unchanged do.
    """

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", GenerationTag],
            # Nothing may be computed at compile time, where no rendering pays for it.
            optimized=False,
            finalize=_finalize,
        )
        self.filters = {**FILTERS, **METERS}
        self.tests = dict(TESTS)
        self.globals = dict(GLOBALS)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether a template may see this attribute."""
        if attr.startswith("_"):
            return False
        if isinstance(obj, str):
            return attr in strings.STRING_METHODS
        if isinstance(obj, Mapping):
            return attr in _DICT_METHODS
        if isinstance(obj, (list, tuple)):
            return attr in _LIST_METHODS
        return isinstance(obj, (Namespace, LoopContext, Macro))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """``str.format`` with Jinja's checks and ours."""
        checked = super().wrap_str_format(value)
        if checked is None:
            return None
        template: str = value.__self__

        def formatted(*args: Any, **kwargs: Any) -> str:
            strings.check_brace_format(template, args, kwargs)
            return checked(*args, **kwargs)

        return _Function(formatted)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call what a template calls."""
        spend(_STEPS_PER_CALL + len(args) + len(kwargs))
        if isinstance(obj, (_Function, Macro, Undefined)):
            return context.call(obj, *args, **kwargs)
        for name in _JINJA_ARGUMENTS:
            kwargs.pop(name, None)
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, str):
            return strings.call_string_method(owner, obj.__name__, *args, **kwargs)
        if isinstance(owner, (Mapping, list, tuple, LoopContext)):
            if isinstance(owner, (list, tuple)):
                weigh(owner)
            weigh(args)
            return obj(*args, **kwargs)
        raise SecurityError(f"{type(obj).__name__!r} values cannot be called")

    def getitem(self, obj: Any, argument: Any) -> Any:
        """``obj[argument]``, or undefined."""
        if not isinstance(argument, (str, int)):
            weigh(argument)  # to hash a tuple is to look at all of it
        return super().getitem(obj, argument)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """An arithmetic operator, paid for."""
        if isinstance(left, (int, float)) and isinstance(right, (int, float)):
            return _bounded(self._number(operator, left, right))
        if operator == "%" and isinstance(left, str):
            return strings.percent_format(left, right)
        _pay_for_operator(operator, left, right)
        return self.binop_table[operator](left, right)

    def _number(self, operator: str, left: Any, right: Any) -> Any:
        exponent = operator == "**" and isinstance(left, int) and isinstance(right, int)
        if exponent and left.bit_length() * right > MAX_INTEGER_BITS:
            raise TemplateLimitError("it computes a number that is too large")
        return self.binop_table[operator](left, right)


def _bounded(number: Any) -> Any:
    if isinstance(number, int) and number.bit_length() > MAX_INTEGER_BITS:
        raise TemplateLimitError("it computes a number that is too large")
    return number


def _pay_for_operator(operator: str, left: Any, right: Any) -> None:
    if operator == "+" and isinstance(left, str) and isinstance(right, str):
        spend_characters(len(left) + len(right))
    elif operator == "+" and isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        spend(1 + (len(left) + len(right) >> CHARACTERS_PER_STEP_BITS))
    elif operator == "*":
        _pay_for_repetition(left, right)
    else:
        weigh(left)
        weigh(right)


def _pay_for_repetition(left: Any, right: Any) -> None:
    values, times = (right, left) if isinstance(left, int) else (left, right)
    if isinstance(times, int):
        count = max(times, 0) * len(values)
        spend(count >> CHARACTERS_PER_STEP_BITS if isinstance(values, str) else count)


@pass_context
def _finalize(_: Context, value: Any) -> str:
    return text_of(value)


class _Function:
    """A function that templates may call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


def _range(*bounds: Any) -> range:
    values = range(*bounds)
    if len(values) > MAX_RANGE:
        raise TemplateLimitError(f"it asks for a range of more than {MAX_RANGE} numbers")
    return values


def _raise_exception(message: Any = "") -> None:
    weigh(message)
    raise RefusalError(str(message)[:_MAX_REFUSAL_CHARACTERS])


def _strftime_now(template: str) -> str:
    if len(template) > 200 or _STRFTIME_WIDTH.search(template):
        raise TemplateLimitError("it asks for a date that is too long")
    return datetime.now(UTC).strftime(template)


def _dict(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    weigh(args)
    return dict(*args, **kwargs)


def _namespace(*args: Any, **kwargs: Any) -> Namespace:
    weigh(args)
    return Namespace(*args, **kwargs)


GLOBALS: dict[str, Any] = {
    "dict": _Function(_dict),
    "namespace": _Function(_namespace),
    "raise_exception": _Function(_raise_exception),
    "range": _Function(_range),
    "strftime_now": _Function(_strftime_now),
}
"""The functions that a template finds."""
