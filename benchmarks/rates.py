"""Rates of one contender, one process: ``python -m benchmarks.rates CONTENDER MODEL``.

Prints one line of JSON with tokens per second: ``decode`` is 128 tokens one by one after a prompt
of one token, each the likeliest after those before it, and ``prefill`` a prompt of 512 random
tokens (llama-bench's tg128 and pp512). Each is the median of a few repetitions after a warm-up.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

THREADS = 2
DECODED = 128
PROMPT = 512
REPETITIONS = 3


def prompt(length: int) -> list[int]:
    return np.random.default_rng(0).integers(1000, 40000, length).tolist()


def median_rate(tokens: int, run: Callable[[], float]) -> float:
    run()
    return tokens / statistics.median(run() for _ in range(REPETITIONS))


def mrs(version_folder: str) -> dict[str, float]:
    """Through the engine as a server uses it, without HTTP: scheduler, sampler, detokenizer."""
    from mrs.model_repo.repository import ModelRepository
    from mrs.runtime.generation import GenerationRequest, SamplingParams
    from mrs.runtime.loading import load_served

    folder = Path(version_folder).resolve()
    version = ModelRepository(folder.parent).resolve(str(folder))
    # Repetitions must compute what they are timed for.
    loaded = load_served(version, threads=THREADS, prefix_cache_bytes=0)

    async def generate(length: int, count: int) -> tuple[float, float, float]:
        """When the request was made, and when its first and last token came."""
        sampling = SamplingParams(temperature=0.0, max_tokens=count, ignore_eos=True)
        start = time.perf_counter()
        stamps = []
        request = GenerationRequest(tuple(prompt(length)), sampling)
        async for _ in loaded.engine.submit(request):
            stamps.append(time.perf_counter())
        return start, stamps[0], stamps[-1]

    def decode() -> float:
        _, first, last = asyncio.run(generate(1, DECODED + 1))
        return last - first

    def prefill() -> float:
        start, first, _ = asyncio.run(generate(PROMPT, 1))
        return first - start

    try:
        return {"decode": median_rate(DECODED, decode), "prefill": median_rate(PROMPT, prefill)}
    finally:
        loaded.close()


def llamacpp(gguf: str) -> dict[str, float]:
    """llama-cpp-python's own generation; ``eval`` is its evaluation alone, without a sampler."""
    from llama_cpp import Llama

    llama = Llama(
        gguf, n_ctx=2048, n_threads=THREADS, n_threads_batch=THREADS, n_batch=PROMPT,
        n_ubatch=PROMPT, verbose=False,
    )  # fmt: skip

    def decode() -> float:
        llama.reset()
        tokens = llama.generate(prompt(1), temp=0.0)
        next(tokens)
        start = time.perf_counter()
        for _ in range(DECODED):
            next(tokens)
        return time.perf_counter() - start

    def evaluate() -> float:
        llama.reset()
        llama.eval(prompt(1))
        start = time.perf_counter()
        for token in prompt(DECODED):
            llama.eval([token])
        return time.perf_counter() - start

    def prefill() -> float:
        llama.reset()
        start = time.perf_counter()
        llama.eval(prompt(PROMPT))
        return time.perf_counter() - start

    return {
        "decode": median_rate(DECODED, decode),
        "eval": median_rate(DECODED, evaluate),
        "prefill": median_rate(PROMPT, prefill),
    }


if __name__ == "__main__":
    contender, model = sys.argv[1:]
    print(json.dumps({"mrs": mrs, "llamacpp": llamacpp}[contender](model)))
