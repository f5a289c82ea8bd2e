"""The requests that an engine has taken and not ended: their choices, and who must leave."""

from __future__ import annotations

from collections.abc import Iterable

from mrs.errors import RequestTimeoutError
from mrs.runtime.deadlines import Deadlines
from mrs.runtime.sequence import Sequence
from mrs.runtime.ticket import Choice, Ticket


class Admitted:
    """Who runs or waits. Not thread-safe."""

    def __init__(self) -> None:
        self._choices: dict[Sequence, Choice] = {}
        self._given_up: set[Ticket] = set()
        self._deadlines = Deadlines()

    def __bool__(self) -> bool:
        return bool(self._choices)

    def __getitem__(self, sequence: Sequence) -> Choice:
        return self._choices[sequence]

    def add(self, ticket: Ticket, choices: Iterable[Choice]) -> None:
        """Take a request; its time begins now."""
        for choice in choices:
            ticket.sequences.append(choice.sequence)
            self._choices[choice.sequence] = choice
        self._deadlines.add(ticket)

    def give_up(self, ticket: Ticket) -> None:
        """Nobody wants the answers of a request any more; it may have ended. Idempotent."""
        self._given_up.add(ticket)

    def take_leaving(self) -> dict[Sequence, RequestTimeoutError | None]:
        """The sequences of requests that were given up, or whose time is up; each is told once.

        Returns:
            for each sequence what its client hears; nothing, where nobody listens any more.
        """
        given_up, self._given_up = self._given_up, set()
        leaving: dict[Sequence, RequestTimeoutError | None] = {
            sequence: None for ticket in given_up for sequence in self._left(ticket)
        }
        for ticket in self._expired():
            for sequence in self._left(ticket):
                leaving.setdefault(sequence, _out_of_time(ticket))
        return leaving

    def remove(self, sequence: Sequence) -> Choice:
        """A sequence has ended."""
        return self._choices.pop(sequence)

    def take_all(self) -> list[Choice]:
        """All choices, none of which is left."""
        left = list(self._choices.values())
        self._choices.clear()
        self._deadlines = Deadlines()
        return left

    def _expired(self) -> list[Ticket]:
        if not self._deadlines:
            return []
        return self._deadlines.expired({choice.ticket for choice in self._choices.values()})

    def _left(self, ticket: Ticket) -> list[Sequence]:
        return [sequence for sequence in ticket.sequences if sequence in self._choices]


def _out_of_time(ticket: Ticket) -> RequestTimeoutError:
    return RequestTimeoutError(
        f"The answer was not complete after {ticket.request.timeout:g} seconds.",
        hint="Ask for a shorter one, or allow more time.",
    )
