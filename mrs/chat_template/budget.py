"""How much work one rendering may do.

Work is counted, not timed, so that a template fails on every machine or on none. One step is about
a microsecond: a loop iteration, 16 nodes of a loop's body, or 32 characters that some operation
has to read or make. Whatever a template can repeat or make grow spends steps *before* it happens,
so that neither time nor memory can exceed what the budget pays for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from jinja2.utils import Namespace

CHARACTERS_PER_STEP_BITS = 5


class TemplateLimitError(Exception):
    """A template asked for more than it may have."""


class _Budget:
    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps


_current: ContextVar[_Budget] = ContextVar("render_budget")


@contextmanager
def render_budget(steps: int) -> Iterator[None]:
    """Allow this many steps to what runs inside."""
    token = _current.set(_Budget(steps))
    try:
        yield
    finally:
        _current.reset(token)


def spend(steps: int) -> None:
    """Take steps from the budget.

    Raises:
        TemplateLimitError: not enough are left.
    """
    budget = _current.get()
    budget.left -= steps
    if budget.left < 0:
        raise TemplateLimitError("it does more work than a template may")


def spend_characters(count: int) -> None:
    """Pay for reading or making ``count`` characters."""
    spend(count >> CHARACTERS_PER_STEP_BITS)


def weigh(value: Any, times: int = 1) -> None:
    """Pay for an operation that looks at all of ``value``, nested values included."""
    if isinstance(value, str):
        spend_characters(len(value) * times)
        return
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            spend_characters(len(item) * times)
        elif isinstance(item, Mapping):
            spend(times * (1 + len(item)))
            pending.extend(item.keys())
            pending.extend(item.values())
        elif isinstance(item, range):
            spend(times * (1 + len(item)))
        elif isinstance(item, Collection):
            spend(times * (1 + len(item)))
            pending.extend(item)
        elif isinstance(item, Namespace):
            raise TemplateLimitError("it uses a namespace as if it were a value")


def counted(values: Iterable[Any], steps: int = 1) -> Iterator[Any]:
    """The same values, each of which costs ``steps``."""
    for value in values:
        spend(steps)
        yield value


def settled(values: Any, times: int = 1) -> Any:
    """``values`` weighed; what can be iterated only once becomes a list."""
    if not isinstance(values, Iterator):
        weigh(values, times)
        return values
    items = []
    for value in values:
        spend(times)
        weigh(value, times)
        items.append(value)
    return items
