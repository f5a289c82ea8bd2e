"""When requests are made: so many at once, or so many a second."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from mrs.load_test.completion import Outcome

Ask = Callable[[int], Awaitable[Outcome]]
"""Makes the request of a number."""


class Arrivals(StrEnum):
    """How requests are spread over time where there is a rate."""

    POISSON = "poisson"
    FIXED = "fixed"


@dataclass(frozen=True)
class Streams:
    """A closed loop: so many clients, each of which asks again when its answer is there.

    Attributes:
        count: clients.
    """

    count: int

    async def run(self, ask: Ask, requests: int) -> list[Outcome]:
        """Make so many requests; outcomes are in the order in which they were made."""
        outcomes: dict[int, Outcome] = {}
        numbers = iter(range(requests))

        async def client() -> None:
            for number in numbers:
                outcomes[number] = await ask(number)

        await asyncio.gather(*(client() for _ in range(min(self.count, requests))))
        return [outcomes[number] for number in range(requests)]


@dataclass(frozen=True)
class Rate:
    """An open loop: requests come whether or not the server keeps up.

    Attributes:
        per_second: on average.
        arrivals: Poisson (independent users) or evenly spaced.
    """

    per_second: float
    arrivals: Arrivals = Arrivals.POISSON

    def times(self, requests: int) -> list[float]:
        """Seconds after the start at which requests are made; the first at once."""
        if self.arrivals is Arrivals.FIXED:
            return [number / self.per_second for number in range(requests)]
        gaps = np.random.default_rng(0).exponential(1 / self.per_second, max(0, requests - 1))
        return [0.0, *np.cumsum(gaps).tolist()][:requests]

    async def run(self, ask: Ask, requests: int) -> list[Outcome]:
        """Make so many requests; outcomes are in the order in which they were made."""
        start = asyncio.get_running_loop().time()

        async def one(number: int, at: float) -> Outcome:
            await asyncio.sleep(start + at - asyncio.get_running_loop().time())
            return await ask(number)

        times = enumerate(self.times(requests))
        return list(await asyncio.gather(*(one(number, at) for number, at in times)))
