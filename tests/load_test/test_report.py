from __future__ import annotations

import pytest

from mrs.load_test.completion import Outcome
from mrs.load_test.report import Objective, Spread, report

FAST = Outcome(0.0, [0.1, 0.2, 0.3], tokens=3, prompt_tokens=10)
SLOW = Outcome(1.0, [2.0, 2.5, 4.0], tokens=5, prompt_tokens=20)
FAILED = Outcome(1.0, [1.5], error="gone")


def test_a_spread_is_of_milliseconds() -> None:
    spread = Spread.of(number / 1000 for number in range(101))
    assert (spread.mean, spread.p50, spread.p99) == pytest.approx((50, 50, 99))


def test_nothing_has_no_spread() -> None:
    assert Spread.of([]) == Spread(0, 0, 0)


def test_durations_of_an_answer() -> None:
    assert SLOW.time_to_first_token == 1.0
    assert SLOW.latency == 3.0
    assert SLOW.time_per_output_token == 0.5  # 2 s for the four tokens after the first.
    assert list(SLOW.gaps) == [0.5, 1.5]


def test_failures_count_as_requests_and_as_nothing_else() -> None:
    found = report([FAST, FAILED, SLOW, FAILED], 4.0, Objective())
    assert (found.requests, found.failed, found.errors) == (4, 2, ("gone",))
    assert found.requests_per_second == 0.5
    assert found.tokens_per_second == 2.0
    assert (found.prompt_tokens, found.output_tokens) == (15, 4)
    assert found.time_to_first_token.mean == pytest.approx(550)
    assert found.inter_token_latency.mean == pytest.approx((100 + 100 + 500 + 1500) / 4)


@pytest.mark.parametrize(
    ("objective", "good"),
    [
        (Objective(), 2),
        (Objective(time_to_first_token=100.001), 1),
        (Objective(time_to_first_token=99), 0),
        (Objective(time_per_output_token=500), 2),
        (Objective(time_per_output_token=499), 1),
        (Objective(time_to_first_token=1000, time_per_output_token=200), 1),
    ],
)
def test_goodput_counts_answers_that_were_fast_enough(objective: Objective, good: int) -> None:
    assert report([FAST, SLOW, FAILED], 1.0, objective).goodput == good


def test_a_run_without_any_answer_has_figures_too() -> None:
    found = report([FAILED], 1.0, Objective())
    assert (found.tokens_per_second, found.output_tokens, found.goodput) == (0, 0, 0)
