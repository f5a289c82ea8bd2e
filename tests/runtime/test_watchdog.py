"""Steps that take too long, by a clock that the test turns."""

from __future__ import annotations

import logging

import pytest

from mrs.runtime.watchdog import Watchdog


class Watched:
    """A watchdog with a limit of 100 seconds."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.events: list[str] = []
        self.watchdog = Watchdog(
            100.0,
            lambda: self.events.append("interrupt"),
            lambda: self.events.append("give up"),
            lambda: self.now,
        )

    def after(self, seconds: float) -> list[str]:
        self.now += seconds
        self.watchdog.check()
        return self.events


def test_nothing_happens_while_nothing_runs_or_in_time() -> None:
    watched = Watched()
    assert watched.after(500) == []
    watched.watchdog.begin()
    assert watched.after(99) == []
    assert not watched.watchdog.overdue
    watched.watchdog.end()
    assert watched.after(500) == []


def test_a_long_step_is_interrupted_once_and_then_given_up_once() -> None:
    watched = Watched()
    watched.watchdog.begin()
    assert watched.after(101) == ["interrupt"]
    assert watched.watchdog.overdue
    assert watched.after(20) == ["interrupt"]
    assert watched.after(10) == ["interrupt", "give up"]
    assert watched.after(1000) == ["interrupt", "give up"]


def test_a_step_that_ends_when_it_is_interrupted_is_forgotten() -> None:
    watched = Watched()
    watched.watchdog.begin()
    watched.after(101)
    watched.watchdog.end()
    assert not watched.watchdog.overdue
    watched.watchdog.begin()
    assert watched.after(99) == ["interrupt"]
    assert watched.after(2) == ["interrupt", "interrupt"]


def test_the_log_tells_where_the_step_is(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched()
    watched.watchdog.begin()
    with caplog.at_level(logging.CRITICAL):
        watched.after(101)
    assert "longer than 100 seconds" in caplog.text
    assert "test_the_log_tells_where_the_step_is" in caplog.text
