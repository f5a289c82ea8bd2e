"""Turns of several models."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mrs.runtime.step import Step
from mrs.runtime.step_gate import GatedRunner, StepGate

TIMEOUT = 10.0
STEP = Step(0, ())


class Runner:
    """Notes its steps, and that no other runner's overlaps one."""

    running = 0

    def __init__(self, name: str, log: list[str]) -> None:
        self._name = name
        self._log = log
        self.interrupted = False

    def run(self, step: Step) -> np.ndarray:
        Runner.running += 1
        assert Runner.running == 1
        self._log.append(self._name)
        Runner.running -= 1
        return np.zeros((1, 1), np.float32)

    def interrupt(self) -> None:
        self.interrupted = True


def test_steps_of_many_runners_never_overlap() -> None:
    gate, log = StepGate(), []
    runners = [GatedRunner(Runner(name, log), gate) for name in "abcd"]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda one: [one.run(STEP) for _ in range(200)], runners))
    assert sorted(log) == sorted("abcd" * 200)


def test_who_asks_first_is_first() -> None:
    """Three come one after the other, while a fourth has its turn."""
    gate, log = StepGate(), []
    threads = []
    gate.__enter__()
    for number, name in enumerate("abc", start=1):
        thread = threading.Thread(target=GatedRunner(Runner(name, log), gate).run, args=(STEP,))
        thread.start()
        threads.append(thread)
        while gate.pending < number + 1:
            assert thread.is_alive()
    gate.__exit__(None, None, None)
    for thread in threads:
        thread.join(TIMEOUT)
    assert log == ["a", "b", "c"]


def test_a_step_that_fails_lets_the_next_one_in() -> None:
    gate = StepGate()
    failing = Runner("a", [])
    failing.run = lambda step: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    with pytest.raises(ZeroDivisionError):
        GatedRunner(failing, gate).run(STEP)
    assert GatedRunner(Runner("b", []), gate).run(STEP).shape == (1, 1)


def test_an_interruption_reaches_the_runner() -> None:
    runner = Runner("a", [])
    GatedRunner(runner, StepGate()).interrupt()
    assert runner.interrupted
