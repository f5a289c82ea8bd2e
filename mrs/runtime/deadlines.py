"""When requests must have ended."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Set

from mrs.runtime.ticket import Ticket

_MOST_STALE = 64


class Deadlines:
    """The requests that have a time limit, the most urgent one first. Not thread-safe.

    Args:
        clock: seconds, for tests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: list[tuple[float, int, Ticket]] = []
        self._numbers = itertools.count()

    def add(self, ticket: Ticket) -> None:
        """Take note of a request's time limit, if it has one; its time begins now."""
        if ticket.request.timeout is not None:
            deadline = self._clock() + ticket.request.timeout
            heapq.heappush(self._entries, (deadline, next(self._numbers), ticket))

    def expired(self, running: Set[Ticket]) -> list[Ticket]:
        """Requests whose time is up, each told once.

        Args:
            running: those that have not ended.
        """
        expired = []
        now = self._clock()
        while self._entries and self._entries[0][0] <= now:
            ticket = heapq.heappop(self._entries)[2]
            if ticket in running:
                expired.append(ticket)
        if len(self._entries) > _MOST_STALE + 2 * len(running):
            # Most are of requests that have ended long before their time.
            self._entries = [entry for entry in self._entries if entry[2] in running]
            heapq.heapify(self._entries)
        return expired

    def __bool__(self) -> bool:
        return bool(self._entries)
