"""Notices a step that takes too long."""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable

_log = logging.getLogger(__name__)

DEFAULT_LIMIT = 120.0
"""Seconds: many times what the longest step takes on a slow and busy machine."""
_ENDS_WITHIN = 5.0
_GRACE_SHARE = 0.25


class Watchdog:
    """Watches one thread's work, step by step, from another thread.

    A step that takes longer than ``limit`` is interrupted; if it has not ended a quarter of that
    later, it never will, and is given up.

    Args:
        limit: seconds.
        interrupt: asks the step to end; called on the watchdog's thread.
        give_up: called there once, if it does not.
        clock: seconds, for tests.
    """

    def __init__(
        self,
        limit: float,
        interrupt: Callable[[], None],
        give_up: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limit = limit
        self._interrupt = interrupt
        self._give_up = give_up
        self._clock = clock
        self._began: float | None = None
        self._interrupted: float | None = None
        self._given_up = False
        self._watched = threading.get_ident()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="mrs-watchdog", daemon=True)

    @property
    def overdue(self) -> bool:
        """The step of this moment takes longer than it may."""
        began = self._began
        return began is not None and self._clock() - began > self.limit

    def start(self) -> None:
        """Watch the calling thread."""
        self._watched = threading.get_ident()
        self._thread.start()

    def stop(self) -> None:
        """Watch no more. The thread, which holds all that it could interrupt, has ended after."""
        self._over.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_ENDS_WITHIN)

    def begin(self) -> None:
        """A step begins."""
        self._began = self._clock()

    def end(self) -> None:
        """It has ended."""
        self._began = None

    def check(self) -> None:
        """Look at the step of this moment once."""
        began = self._began
        if began is None or not self.overdue or self._given_up:
            return
        if self._interrupted != began:
            self._interrupted = began
            _log.critical(
                "A step takes longer than %g seconds and is interrupted. It is here:\n%s",
                self.limit,
                self._where(),
            )
            self._interrupt()
        elif self._clock() - began > self.limit * (1 + _GRACE_SHARE):
            self._given_up = True
            self._give_up()

    def _where(self) -> str:
        frame = sys._current_frames().get(self._watched)
        return "".join(traceback.format_stack(frame)) if frame is not None else "(it has ended)"

    def _watch(self) -> None:
        while not self._over.wait(self.limit / 8):
            self.check()
