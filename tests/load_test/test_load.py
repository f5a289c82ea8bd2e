from __future__ import annotations

import asyncio
import itertools

import pytest

from mrs.load_test.completion import Outcome
from mrs.load_test.load import Arrivals, Rate, Streams


class Asked:
    """Answers after a few turns of the event loop, and sees how many wait at once."""

    def __init__(self) -> None:
        self.order: list[int] = []
        self.most = self.now = 0

    async def __call__(self, number: int) -> Outcome:
        self.order.append(number)
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(number % 3 + 1):
            await asyncio.sleep(0)
        self.now -= 1
        return Outcome(float(number))


@pytest.mark.parametrize(("streams", "requests"), [(1, 5), (3, 10), (16, 4)])
def test_so_many_clients_ask_at_once_and_each_request_once(streams: int, requests: int) -> None:
    asked = Asked()
    outcomes = asyncio.run(Streams(streams).run(asked, requests))
    assert asked.most == min(streams, requests)
    assert sorted(asked.order) == list(range(requests))
    assert [outcome.asked for outcome in outcomes] == list(range(requests))


def test_an_even_rate_has_even_times() -> None:
    assert Rate(4.0, Arrivals.FIXED).times(4) == [0.0, 0.25, 0.5, 0.75]


def test_a_poisson_process_has_exponential_gaps() -> None:
    """Mean and standard deviation of exponential gaps are both 1 / rate."""
    times = Rate(5.0).times(20_001)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    mean = sum(gaps) / len(gaps)
    deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert mean == pytest.approx(0.2, rel=0.03)
    assert deviation == pytest.approx(0.2, rel=0.03)


def test_a_rate_does_not_wait_for_answers() -> None:
    asked = Asked()
    outcomes = asyncio.run(Rate(1e6, Arrivals.FIXED).run(asked, 8))
    assert asked.most > 1
    assert [outcome.asked for outcome in outcomes] == list(range(8))
