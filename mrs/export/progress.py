"""How long work reports itself. The export only calls these; the command line draws them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Advance(Protocol):
    """Moves the current phase forward."""

    def __call__(self, amount: int) -> None:
        """Report ``amount`` more units (bytes or items) as done."""


class Progress(Protocol):
    """A listener for the phases of an export."""

    def phase(
        self, label: str, *, total: int | None = None, unit: str = "items"
    ) -> AbstractContextManager[Advance]:
        """Enter a phase; leaving the context ends it.

        Args:
            label: what is being done, in the imperative (``Read``, ``Write weights``).
            total: units of work, or None if unknown.
            unit: ``bytes`` or ``items``.
        """


class SilentProgress:
    """A `Progress` that reports to nobody."""

    def phase(
        self, label: str, *, total: int | None = None, unit: str = "items"
    ) -> AbstractContextManager[Advance]:
        """Return a context whose `Advance` does nothing."""
        return nullcontext(_ignore)


def _ignore(amount: int) -> None:
    """Take no note of ``amount``."""
