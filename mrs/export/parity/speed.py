"""Tokens per second of a graph, one sequence at a time."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import numpy as np

from mrs.export.parity.graph_runner import GraphRunner

PROMPT_TOKENS = 256
ANSWER_TOKENS = 32
_PROMPTS = 2


@dataclass(frozen=True)
class Speed:
    """Tokens per second.

    Attributes:
        prefill: of a prompt of 256 tokens, or what the context holds.
        decode: one by one after it; the median token counts.
    """

    prefill: float
    decode: float


def measure_speed(runner: GraphRunner, capacity: int) -> Speed:
    """Time a prompt and an answer; what the tokens are makes no difference.

    Args:
        runner: the graph, with room for ``capacity`` tokens; at least 2.
        capacity: at most this many tokens are computed.
    """
    answer = min(ANSWER_TOKENS, capacity // 2)
    prompt = min(PROMPT_TOKENS, capacity - answer)
    tokens = np.arange(prompt, dtype=np.int64) % runner.vocabulary
    # The first run of a shape allocates; the faster of two is the one to expect.
    prefill = min(_timed(runner, tokens, 0) for _ in range(_PROMPTS))
    steps = [_timed(runner, tokens[:1], prompt + step) for step in range(answer)]
    return Speed(prefill=prompt / prefill, decode=1 / statistics.median(steps))


def _timed(
    runner: GraphRunner, tokens: np.ndarray[tuple[int], np.dtype[np.int64]], past: int
) -> float:
    started = time.perf_counter()
    runner.run(tokens, past, len(tokens) - 1)
    return time.perf_counter() - started
