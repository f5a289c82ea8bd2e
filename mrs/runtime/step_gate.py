"""One model computes at a time, so that several in one process share its processors.

Each session has as many threads as the process has processors. Two steps at once would get in each
other's way: threads of the one spin while they wait for others that the other one keeps from
running. In turns, each step has all processors, and takes as long as it does alone.
"""

from __future__ import annotations

import threading
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from mrs.runtime.step import Step, StepRunner


class StepGate:
    """A lock that is given in the order in which it was asked for. Not reentrant."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._asked = 0
        self._served = 0

    @property
    def pending(self) -> int:
        """How many have the lock or wait for it."""
        return self._asked - self._served

    def __enter__(self) -> None:
        with self._changed:
            turn, self._asked = self._asked, self._asked + 1
            self._changed.wait_for(lambda: self._served == turn)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._changed:
            self._served += 1
            self._changed.notify_all()


SHARED_GATE = StepGate()
"""That of this process."""


class GatedRunner:
    """A `mrs.runtime.step.StepRunner` that waits for its turn.

    Args:
        runner: computes the steps.
        gate: whom it shares the processors with.
    """

    def __init__(self, runner: StepRunner, gate: StepGate = SHARED_GATE) -> None:
        self._runner = runner
        self._gate = gate

    def run(self, step: Step) -> NDArray[np.float32]:
        """What the runner makes of the step."""
        with self._gate:
            return self._runner.run(step)

    def interrupt(self) -> None:
        """Interrupt the step that runs, if it is one of the runner's."""
        self._runner.interrupt()
