"""A `Progress` that remembers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from mrs.export.progress import Advance


@dataclass
class Phase:
    """What was said of one phase."""

    label: str
    total: int | None
    unit: str
    done: int = 0


@dataclass
class RecordingProgress:
    """Keeps every phase in order."""

    phases: list[Phase] = field(default_factory=list)

    @contextmanager
    def phase(
        self, label: str, *, total: int | None = None, unit: str = "items"
    ) -> Iterator[Advance]:
        phase = Phase(label, total, unit)
        self.phases.append(phase)

        def advance(amount: int) -> None:
            phase.done += amount

        yield advance
