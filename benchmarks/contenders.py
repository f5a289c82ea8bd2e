"""Rates of one contender, one process: ``python -m benchmarks.contenders NAME MODEL --depth D``.

Prints one line of JSON with tokens per second: ``decode`` is 128 tokens one by one behind D tokens,
each the likeliest after those before it, and ``prefill`` 512 random tokens behind D (llama-bench's
tg128 and pp512). Each is the median of a few repetitions after a warm-up. Every contender imports
its own library alone, so that each can live in an environment of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.versions import open_version

THREADS = 2
DECODED = 128
PROMPT = 512


@dataclass
class Settings:
    """What all contenders do alike."""

    repetitions: int = 3


settings = Settings()

Rates = dict[str, float]


def prompt(length: int, seed: int = 0) -> list[int]:
    chosen = random.Random(seed)
    return [chosen.randrange(1000, 40000) for _ in range(length)]


def median_rate(tokens: int, run: Callable[[], float]) -> float:
    run()
    return tokens / statistics.median(run() for _ in range(settings.repetitions))


def difference_rate(tokens: int, seconds: Callable[[int], float], depth: int) -> float:
    """Of tokens behind others, where only whole prompts can be timed."""
    if not depth:
        return median_rate(tokens, lambda: seconds(tokens))
    return median_rate(tokens, lambda: seconds(depth + tokens) - seconds(depth))


def mrs(folder: str, depth: int) -> Rates:
    """Through the engine as a server uses it, without HTTP: scheduler, sampler, detokenizer."""
    import asyncio

    from mrs.runtime.benchmark import BenchmarkTest, TestKind, run_test
    from mrs.runtime.loading import load_served

    version = open_version(folder)
    # What tests at a depth begin with is left in the cache by a request before.
    loaded = load_served(version, threads=THREADS, prefix_cache_bytes=1 << 40 if depth else 0)

    def rate(kind: TestKind, tokens: int) -> float:
        test = BenchmarkTest(kind, tokens, depth, batch=1)
        found = asyncio.run(run_test(loaded.engine, test, loaded.vocab_size, settings.repetitions))
        return statistics.median(found.samples)

    try:
        return {
            "decode": rate(TestKind.GENERATION, DECODED),
            "prefill": rate(TestKind.PROMPT, PROMPT),
        }
    finally:
        loaded.close()


def llamacpp(gguf: str, depth: int) -> Rates:
    """llama-cpp-python's own generation; ``eval`` is its evaluation alone, without a sampler."""
    from llama_cpp import Llama

    llama = Llama(
        gguf, n_ctx=depth + 1024, n_threads=THREADS, n_threads_batch=THREADS, n_batch=PROMPT,
        n_ubatch=PROMPT, verbose=False,
    )  # fmt: skip
    before = prompt(depth)

    def decode() -> float:
        llama.reset()
        tokens = llama.generate(before or prompt(1), temp=0.0)
        next(tokens)
        start = time.perf_counter()
        for _ in range(DECODED):
            next(tokens)
        return time.perf_counter() - start

    def evaluate() -> float:
        llama.reset()
        llama.eval(before or prompt(1))
        start = time.perf_counter()
        for token in prompt(DECODED):
            llama.eval([token])
        return time.perf_counter() - start

    def prefill() -> float:
        llama.reset()
        if before:
            llama.eval(before)
        start = time.perf_counter()
        llama.eval(prompt(PROMPT, 1))
        return time.perf_counter() - start

    return {
        "decode": median_rate(DECODED, decode),
        "eval": median_rate(DECODED, evaluate),
        "prefill": median_rate(PROMPT, prefill),
    }


def openvino(gguf: str, depth: int) -> Rates:
    """OpenVINO GenAI reads the GGUF file itself."""
    import numpy as np
    import openvino as ov
    import openvino_genai as genai

    pipeline = genai.LLMPipeline(gguf, "CPU", INFERENCE_NUM_THREADS=THREADS)
    seeds = iter(range(1 << 30))

    def run(length: int, count: int) -> tuple[float, float]:
        """Seconds until the first token, and between tokens; no prompt begins as another did."""
        ids = np.array([prompt(length, next(seeds))], dtype=np.int64)
        inputs = genai.TokenizedInputs(ov.Tensor(ids), ov.Tensor(np.ones_like(ids)))
        config = genai.GenerationConfig(max_new_tokens=count, ignore_eos=True, do_sample=False)
        metrics = pipeline.generate(inputs, config).perf_metrics
        return metrics.get_ttft().mean / 1000, metrics.get_tpot().mean / 1000

    return {
        "decode": median_rate(DECODED, lambda: DECODED * run(depth or 1, DECODED + 1)[1]),
        "prefill": difference_rate(PROMPT, lambda length: run(length, 1)[0], depth),
    }


def mistralrs(gguf: str, depth: int) -> Rates:
    """mistral.rs; prompts are words of about one token each, and it counts and times itself."""
    os.environ["RAYON_NUM_THREADS"] = str(THREADS)
    from mistralrs import CompletionRequest, Runner, Which

    path = Path(gguf).resolve()
    which = Which.GGUF(quantized_model_id=str(path.parent), quantized_filename=path.name)
    runner = Runner(which=which)
    words = "the of and to in is was for on that with as by at from it an be this which or are"
    seeds = iter(range(1 << 30))

    def usage(length: int, count: int) -> Any:
        text = " ".join(random.Random(next(seeds)).choices(words.split(), k=length))
        asked = CompletionRequest(
            model="default", prompt=text, max_tokens=count, temperature=0.0, ignore_eos=True
        )
        return runner.send_completion_request(asked).usage

    def seconds(length: int) -> float:
        found = usage(length, 1)
        return length / float(found.avg_prompt_tok_per_sec)

    count = DECODED // 4  # It is slow: fewer say the same.
    decode = statistics.median(usage(depth or 2, count).avg_compl_tok_per_sec for _ in range(2))
    prefill = seconds(PROMPT) if not depth else seconds(depth + PROMPT) - seconds(depth)
    return {"decode": decode, "prefill": PROMPT / prefill}


def mobius(graph: str, depth: int) -> Rates:
    """The graph that mobius-onnx makes of the file, driven by ONNX Runtime alone."""
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(f"{graph}/model.onnx", options)
    inputs = {node.name: node for node in session.get_inputs()}
    caches = [name for name in inputs if name.startswith("past_key_values.")]
    wanted = ["logits", *(name.replace("past_key_values", "present") for name in caches)]

    def step(tokens: list[int], past: list[onnxruntime.OrtValue]) -> list[onnxruntime.OrtValue]:
        """Logits and caches; caches stay ONNX Runtime's own."""
        known = past[0].shape()[2] if past else 0
        values = {
            "input_ids": np.array([tokens]),
            "attention_mask": np.ones((1, known + len(tokens)), dtype=np.int64),
            "position_ids": np.arange(known, known + len(tokens))[None],
        }
        feeds = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(value)
            for name, value in values.items()
            if name in inputs
        }
        for index, name in enumerate(caches):
            _, heads, _, size = inputs[name].shape
            empty = np.zeros((1, heads, 0, size), dtype=np.float32)
            feeds[name] = past[index] if past else onnxruntime.OrtValue.ortvalue_from_numpy(empty)
        found: list[onnxruntime.OrtValue] = session.run_with_ort_values(wanted, feeds)
        return found

    def after(length: int) -> list[onnxruntime.OrtValue]:
        return step(prompt(length), [])[1:] if length else []

    def decode() -> float:
        logits, *past = step(prompt(depth or 1), [])
        start = time.perf_counter()
        for _ in range(DECODED):
            logits, *past = step([int(logits.numpy()[0, -1].argmax())], past)
        return time.perf_counter() - start

    def prefill() -> float:
        past = after(depth)
        start = time.perf_counter()
        step(prompt(PROMPT, 1), past)
        return time.perf_counter() - start

    return {"decode": median_rate(DECODED, decode), "prefill": median_rate(PROMPT, prefill)}


CONTENDERS = {
    "mrs": mrs,
    "llamacpp": llamacpp,
    "openvino": openvino,
    "mistralrs": mistralrs,
    "mobius": mobius,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("contender", choices=CONTENDERS)
    parser.add_argument("model")
    parser.add_argument("--depth", type=int, default=0)
    parser.add_argument("--repetitions", type=int, default=settings.repetitions)
    arguments = parser.parse_args()
    settings.repetitions = arguments.repetitions
    print(json.dumps(CONTENDERS[arguments.contender](arguments.model, arguments.depth)))


if __name__ == "__main__":
    main()
