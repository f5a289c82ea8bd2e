"""Rates of a loaded model, as its users get them: scheduler, sampler and detokenizer included.

The tests are those of llama-bench: ``pp`` computes prompts, ``tg`` generates tokens one by one,
each for some sequences at once and behind some tokens that are in the cache already.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from mrs.runtime.generation import GenerationEngine, GenerationRequest, SamplingParams


class TestKind(StrEnum):
    """What is timed."""

    __test__ = False  # Not a test of pytest's.

    PROMPT = "pp"
    GENERATION = "tg"


@dataclass(frozen=True)
class BenchmarkTest:
    """One test.

    Attributes:
        kind: computing prompts or generating.
        tokens: of each sequence that are timed.
        depth: tokens of each that are in the cache before.
        batch: sequences at once.
    """

    kind: TestKind
    tokens: int
    depth: int
    batch: int

    @property
    def name(self) -> str:
        """As llama-bench writes it: ``pp512``, ``tg128 @ d2048``."""
        depth = f" @ d{self.depth}" if self.depth else ""
        return f"{self.kind.value}{self.tokens}{depth}"

    @property
    def length(self) -> int:
        """Most tokens of a sequence."""
        return self.depth + self.tokens + 2


@dataclass(frozen=True)
class Rate:
    """Tokens per second of a test, over its repetitions.

    Attributes:
        samples: one for each repetition.
    """

    samples: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Their mean."""
        return statistics.fmean(self.samples)

    @property
    def deviation(self) -> float:
        """Their standard deviation; 0 for a single one."""
        return statistics.stdev(self.samples) if len(self.samples) > 1 else 0.0


async def run_test(
    engine: GenerationEngine,
    test: BenchmarkTest,
    vocab_size: int,
    repetitions: int,
    on_repetition: Callable[[], None] = lambda: None,
) -> Rate:
    """Run a test on random tokens, once to warm up and then so many times."""
    samples = []
    for number in range(repetitions + 1):
        rng = np.random.default_rng([test.depth, test.tokens, test.batch, number])
        prompts = rng.integers(0, vocab_size, (test.batch, max(1, test.depth)))
        before, salt = prompts.tolist(), f"{test.name} {number}"
        if test.depth:
            # By requests of their own: who reads a long prompt generates later than the others.
            await asyncio.gather(*(_stamps(engine, prompt, 1, salt) for prompt in before))
        if test.kind is TestKind.PROMPT:
            samples.append(await _prompt_rate(engine, test, before, vocab_size, salt))
        else:
            samples.append(await _generation_rate(engine, test, before, salt))
        on_repetition()
    return Rate(tuple(samples[1:]))


async def _prompt_rate(
    engine: GenerationEngine,
    test: BenchmarkTest,
    before: list[list[int]],
    vocab_size: int,
    salt: str,
) -> float:
    """Timed from when all are asked for, until the last has its first token."""
    rng = np.random.default_rng([test.tokens, test.batch])
    timed = rng.integers(0, vocab_size, (test.batch, test.tokens)).tolist()
    prompts = [
        [*(early if test.depth else ()), *late]
        for early, late in zip(before, timed, strict=True)
    ]  # fmt: skip
    start = time.perf_counter()
    stamps = await asyncio.gather(*(_stamps(engine, prompt, 1, salt) for prompt in prompts))
    last = max(first for first, *_ in stamps)
    return test.batch * test.tokens / (last - start)


async def _generation_rate(
    engine: GenerationEngine,
    test: BenchmarkTest,
    prompts: list[list[int]],
    salt: str,
) -> float:
    """Timed from when every sequence has its first token, until the first has its last."""
    count = test.tokens + 1
    asked = time.perf_counter()
    stamps = await asyncio.gather(*(_stamps(engine, prompt, count, salt) for prompt in prompts))
    start = max(times[0] for times in stamps)
    end = min(times[-1] for times in stamps)
    if end <= start:
        # So fast that one had its last token before another's first was looked at.
        return test.batch * count / (max(times[-1] for times in stamps) - asked)
    made = sum(start < stamp <= end for times in stamps for stamp in times)
    return made / (end - start)


async def _stamps(
    engine: GenerationEngine, prompt: list[int], count: int, salt: str
) -> list[float]:
    """When each of so many tokens came."""
    sampling = SamplingParams(temperature=0.0, max_tokens=count, ignore_eos=True)
    stamps: list[float] = []
    request = GenerationRequest(tuple(prompt), sampling, cache_salt=salt)
    async for deltas in engine.submit(request):
        now = time.perf_counter()
        for delta in deltas:
            if delta.error is not None:
                raise delta.error
            stamps += [now] * len(delta.token_ids)
    return stamps
