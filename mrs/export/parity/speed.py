"""Tokens per second of a graph, one sequence at a time."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mrs.cpu import usable_cpus
from mrs.errors import ModelLoadError
from mrs.export.parity.graph_runner import GraphRunner, NotMeasurableError
from mrs.export.parity.onnx_runtime import import_onnx_runtime
from mrs.export.progress import Progress
from mrs.model_repo.measurements import Measurements
from mrs.processor import read_processor

PROMPT_TOKENS = 256
ANSWER_TOKENS = 32
_PROMPTS = 2
# Of a comparison: each round measures both.
_ROUNDS = 3


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


def as_measurements(speed: Speed, threads: int) -> Measurements:
    """A speed with the machine that it was measured on."""
    return Measurements(
        decode_tokens_per_second=round(speed.decode, 1),
        prefill_tokens_per_second=round(speed.prefill, 1),
        threads=threads,
        processor=read_processor().name,
        onnxruntime=import_onnx_runtime().__version__,
    )


def compare_speed(
    graphs: tuple[Path, Path], context_length: int, progress: Progress
) -> tuple[Measurements, Measurements]:
    """Measure two graphs in turns, so that a machine that slows down slows down both.

    Args:
        graphs: paths of ``model.onnx``.
        context_length: the smaller one of the models.
        progress: told of the rounds.

    Raises:
        ModelLoadError: a graph cannot be loaded, or is no decoder.
        RuntimeUnavailableError: ONNX Runtime is missing or too old.
    """
    threads = usable_cpus()
    capacity = min(PROMPT_TOKENS + ANSWER_TOKENS, context_length)
    first, second = (_open(graph, capacity, threads) for graph in graphs)
    rounds: list[tuple[Speed, Speed]] = []
    with progress.phase("Measure speed", total=_ROUNDS) as advance:
        for _ in range(_ROUNDS):
            rounds.append((measure_speed(first, capacity), measure_speed(second, capacity)))
            advance(1)
    ours, theirs = (_median(list(speeds)) for speeds in zip(*rounds, strict=True))
    return as_measurements(ours, threads), as_measurements(theirs, threads)


def _open(graph: Path, capacity: int, threads: int) -> GraphRunner:
    try:
        return GraphRunner(graph, capacity=capacity, threads=threads)
    except NotMeasurableError as error:
        raise ModelLoadError(f"The speed of {graph} cannot be measured: {error}.") from error


def _median(speeds: list[Speed]) -> Speed:
    return Speed(
        prefill=statistics.median(speed.prefill for speed in speeds),
        decode=statistics.median(speed.decode for speed in speeds),
    )


def _timed(runner: GraphRunner, tokens: NDArray[np.int64], past: int) -> float:
    started = time.perf_counter()
    runner.run(tokens, past, len(tokens) - 1)
    return time.perf_counter() - started
