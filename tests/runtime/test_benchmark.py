"""Each test of a benchmark asks the engine for what its name says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from mrs.errors import EngineError
from mrs.runtime.benchmark import BenchmarkTest, Rate, TestKind, run_test
from mrs.runtime.generation import EngineStats, FinishReason, GenerationDelta, GenerationRequest


class Stream:
    def __init__(self, request: GenerationRequest, error: Exception | None) -> None:
        self._request = request
        self._error = error

    async def __aiter__(self) -> AsyncIterator[tuple[GenerationDelta, ...]]:
        count = self._request.sampling.max_tokens or 0
        if self._error is not None:
            yield (GenerationDelta(0, "", (), FinishReason.ERROR, self._error),)
            return
        for number in range(count):
            await asyncio.sleep(0)
            reason = FinishReason.LENGTH if number == count - 1 else None
            yield (GenerationDelta(0, "x", (1,), reason),)

    def cancel(self) -> None:
        pass


class Engine:
    """Answers at once, and remembers what it was asked for."""

    ready = alive = True

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[GenerationRequest] = []
        self._error = error

    def submit(self, request: GenerationRequest) -> Stream:
        self.asked.append(request)
        return Stream(request, self._error)

    def stats(self) -> EngineStats:
        raise NotImplementedError

    def drain(self) -> None:
        raise NotImplementedError


def run(test: BenchmarkTest, repetitions: int = 2) -> tuple[Engine, Rate]:
    engine = Engine()
    return engine, asyncio.run(run_test(engine, test, 1000, repetitions))


def shapes(engine: Engine) -> list[tuple[int, int | None]]:
    """Prompt length and number of tokens of each request."""
    return [(len(asked.prompt_ids), asked.sampling.max_tokens) for asked in engine.asked]


def test_names_are_llama_benchs() -> None:
    assert BenchmarkTest(TestKind.PROMPT, 512, 0, 1).name == "pp512"
    assert BenchmarkTest(TestKind.GENERATION, 128, 2048, 4).name == "tg128 @ d2048"


def test_prompts_are_computed_once_to_warm_up_and_then_as_often_as_asked() -> None:
    engine, rate = run(BenchmarkTest(TestKind.PROMPT, 50, 0, 2), repetitions=3)
    assert shapes(engine) == [(50, 1)] * 2 * 4
    assert len(rate.samples) == 3
    assert min(rate.samples) > 0


def test_prompts_at_a_depth_continue_what_is_in_the_cache() -> None:
    engine, _ = run(BenchmarkTest(TestKind.PROMPT, 50, 30, 2), repetitions=1)
    assert shapes(engine) == [(30, 1), (30, 1), (80, 1), (80, 1)] * 2
    before, _, timed, _ = engine.asked[:4]
    assert timed.prompt_ids[:30] == before.prompt_ids
    assert timed.cache_salt == before.cache_salt


def test_no_repetition_finds_what_another_has_computed() -> None:
    engine, _ = run(BenchmarkTest(TestKind.PROMPT, 50, 0, 1), repetitions=3)
    assert len({asked.cache_salt for asked in engine.asked}) == 4


def test_generation_behind_a_cached_prompt_makes_one_token_more_than_is_timed() -> None:
    engine, rate = run(BenchmarkTest(TestKind.GENERATION, 8, 30, 3), repetitions=1)
    assert shapes(engine) == [*[(30, 1)] * 3, *[(30, 9)] * 3] * 2
    assert all(asked.sampling.ignore_eos for asked in engine.asked)
    assert rate.samples[0] > 0


def test_a_request_that_fails_ends_the_benchmark() -> None:
    engine = Engine(EngineError("The model failed."))
    with pytest.raises(EngineError):
        asyncio.run(run_test(engine, BenchmarkTest(TestKind.GENERATION, 8, 0, 1), 1000, 1))


def test_mean_and_deviation() -> None:
    assert (Rate((2.0, 4.0)).mean, round(Rate((2.0, 4.0)).deviation, 4)) == (3.0, 1.4142)
    assert Rate((2.0,)).deviation == 0.0
