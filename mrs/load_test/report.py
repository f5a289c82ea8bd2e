"""Outcomes of many requests, put into figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mrs.load_test.completion import Outcome


@dataclass(frozen=True)
class Spread:
    """Of some durations, in milliseconds; all 0 where there are none.

    Attributes:
        p50: half of them are below.
        p99: all but one in a hundred are below.
    """

    mean: float
    p50: float
    p99: float

    @classmethod
    def of(cls, seconds: Iterable[float]) -> Spread:
        """Of durations in seconds."""
        values = np.fromiter(seconds, dtype=np.float64) * 1000
        if not len(values):
            return cls(0.0, 0.0, 0.0)
        p50, p99 = np.percentile(values, (50, 99))
        return cls(float(values.mean()), float(p50), float(p99))


@dataclass(frozen=True)
class Objective:
    """What a user would call fast (a service level objective), in milliseconds; None for any.

    Attributes:
        time_to_first_token: most until the first token.
        time_per_output_token: most between tokens, on average over an answer.
    """

    time_to_first_token: float | None = None
    time_per_output_token: float | None = None

    def is_met(self, outcome: Outcome) -> bool:
        """Whether an answer is whole and fast."""
        if not outcome.ok:
            return False
        limits = (
            (self.time_to_first_token, outcome.time_to_first_token),
            (self.time_per_output_token, outcome.time_per_output_token),
        )
        return all(limit is None or seconds * 1000 <= limit for limit, seconds in limits)


@dataclass(frozen=True)
class Report:
    """Figures of a run.

    Attributes:
        requests: made.
        failed: without a whole answer.
        errors: what was told of some of these.
        seconds: from the first request to the last answer's end.
        prompt_tokens: mean of a prompt.
        output_tokens: mean of an answer.
        requests_per_second: whole answers.
        tokens_per_second: tokens of whole answers.
        goodput: answers per second that met the objective.
        time_to_first_token: of whole answers, as all that follow.
        time_per_output_token: means of the answers.
        inter_token_latency: gaps between events, of all answers together.
        latency: of whole answers.
    """

    requests: int
    failed: int
    errors: tuple[str, ...]
    seconds: float
    prompt_tokens: float
    output_tokens: float
    requests_per_second: float
    tokens_per_second: float
    goodput: float
    time_to_first_token: Spread
    time_per_output_token: Spread
    inter_token_latency: Spread
    latency: Spread


def report(outcomes: Sequence[Outcome], seconds: float, objective: Objective) -> Report:
    """Put outcomes into figures."""
    whole = [outcome for outcome in outcomes if outcome.ok]
    errors = dict.fromkeys(outcome.error for outcome in outcomes if not outcome.ok)
    tokens = sum(outcome.tokens for outcome in whole)
    good = sum(objective.is_met(outcome) for outcome in outcomes)
    return Report(
        requests=len(outcomes),
        failed=len(outcomes) - len(whole),
        errors=tuple(errors)[:3],
        seconds=seconds,
        prompt_tokens=_mean([outcome.prompt_tokens for outcome in whole]),
        output_tokens=_mean([outcome.tokens for outcome in whole]),
        requests_per_second=len(whole) / seconds,
        tokens_per_second=tokens / seconds,
        goodput=good / seconds,
        time_to_first_token=Spread.of(outcome.time_to_first_token for outcome in whole),
        time_per_output_token=Spread.of(outcome.time_per_output_token for outcome in whole),
        inter_token_latency=Spread.of(gap for outcome in whole for gap in outcome.gaps),
        latency=Spread.of(outcome.latency for outcome in whole),
    )


def _mean(counts: Sequence[int]) -> float:
    return sum(counts) / len(counts) if counts else 0.0
