"""What drawing a token costs, beside the step of the model that it follows.

    python -m benchmarks.sampling /tmp/models/NAME/1

Decode steps of 1, 4 and 16 sequences are timed first, and their logits kept; then every setting
draws from these logits, for as many rows. Printed are microseconds per row (the median step's; the
fastest of three runs of each) and the share of a decode step. Text is made of tokens elsewhere and
no part of it.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import statistics
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.versions import open_version
from mrs.runtime.decoder import Decoder
from mrs.runtime.drawing import draw_tokens
from mrs.runtime.generation import DryParams, GenerationRequest, SamplingParams
from mrs.runtime.loading import LoadedModel, load_served
from mrs.runtime.sampling import Sampler

BATCHES = (1, 4, 16)
USUAL = SamplingParams(temperature=0.7, top_p=0.9)
SETTINGS = {
    "greedy": SamplingParams(temperature=0.0),
    "greedy, logprobs 5": SamplingParams(temperature=0.0, logprobs=5),
    "temperature 0.7": SamplingParams(temperature=0.7),
    "+ top_p 0.9": USUAL,
    "+ penalties": dataclasses.replace(
        USUAL, repetition_penalty=1.1, frequency_penalty=0.2, presence_penalty=0.2
    ),
    "+ logprobs 5": dataclasses.replace(USUAL, logprobs=5),
    "+ DRY": dataclasses.replace(USUAL, dry=DryParams(0.8)),
    "top_p 0.99": SamplingParams(top_p=0.99),
    "top_k 40, top_p 0.95, min_p 0.05": SamplingParams(top_k=40, top_p=0.95, min_p=0.05),
    "min_p 0.05": SamplingParams(min_p=0.05),
    "mirostat": SamplingParams(mirostat_tau=5.0),
    "typical 0.9": SamplingParams(typical_p=0.9),
    "top-n-sigma 1": SamplingParams(top_n_sigma=1.0),
    "XTC": SamplingParams(min_p=0.02, xtc_probability=0.5),
}
QUESTIONS = (
    "Write about the sea.", "What is 2 + 2?", "Tell a story of a dragon.", "How does TCP work?",
)  # fmt: skip


class TimedSteps:
    """Times a decoder's steps and keeps the logits of its decode steps, by rows."""

    def __init__(self) -> None:
        self.seconds: dict[int, list[float]] = {}
        self.logits: dict[int, list[NDArray[np.float32]]] = {}

    def watch(self) -> None:
        decoder_class: Any = Decoder
        run = decoder_class.run

        def timed(decoder: Decoder, step: Any) -> NDArray[np.float32]:
            started = time.perf_counter()
            logits: NDArray[np.float32] = run(decoder, step)
            if all(row.new == 1 for row in step.active):
                self.seconds.setdefault(len(logits), []).append(time.perf_counter() - started)
                self.logits.setdefault(len(logits), []).append(logits.copy())
            return logits

        decoder_class.run = timed


async def generate(loaded: LoadedModel, batch: int, tokens: int) -> None:
    async def one(number: int) -> None:
        question = QUESTIONS[number % len(QUESTIONS)]
        try:
            prompt = loaded.prompts.encode_chat([{"role": "user", "content": question}])
        except ValueError:
            prompt = tuple(loaded.tokenizer.encode(question, add_bos=True))
        sampling = SamplingParams(temperature=0.8, seed=number, max_tokens=tokens, ignore_eos=True)
        async for _ in loaded.engine.submit(GenerationRequest(prompt, sampling)):
            pass

    await asyncio.gather(*(one(number) for number in range(batch)))


def choices(params: SamplingParams, batch: int, prompt: list[int], vocab: int) -> list[Any]:
    """What `draw_tokens` needs of choices, without the text."""
    return [
        SimpleNamespace(
            sequence=SimpleNamespace(sampling=params, guesses=()),
            grammar=None,
            reasoning=None,
            sampler=Sampler(params, index, prompt_ids=prompt, pieces=[b"a"] * vocab),
            answer=SimpleNamespace(add=lambda token, logprobs=None, **_: token),
        )
        for index in range(batch)
    ]


def microseconds(params: SamplingParams, steps: list[NDArray[np.float32]]) -> float:
    """Per row."""
    batch, vocab = (int(size) for size in steps[0].shape)
    prompt = [*np.random.default_rng(0).integers(0, vocab, 1000).tolist(), *[1, 2, 3] * 20]
    runs: list[float] = []
    for _ in range(3):
        drawing = choices(dataclasses.replace(params, seed=1), batch, prompt, vocab)
        seconds: list[float] = []
        for logits in steps:
            rows = logits.copy()  # As the decoder leaves them: just written.
            started = time.perf_counter()
            drawn = draw_tokens([(one, row[None]) for one, row in zip(drawing, rows, strict=True)])
            seconds.append(time.perf_counter() - started)
            for result in drawn:
                if isinstance(result, Exception):
                    raise result
        runs.append(statistics.median(seconds))
    return min(runs) / batch * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", type=Path, help="folder of an exported version")
    parser.add_argument("--tokens", type=int, default=24, help="decode steps of each batch")
    arguments = parser.parse_args()
    folder = arguments.version.resolve()
    timed = TimedSteps()
    timed.watch()
    loaded = load_served(open_version(folder), max_seqs=16)
    try:
        for batch in BATCHES:
            asyncio.run(generate(loaded, batch, arguments.tokens))
    finally:
        loaded.close()
    steps = {batch: min(timed.seconds[batch]) for batch in BATCHES}
    print(f"{folder.parent.name}: {loaded.vocab_size} tokens; decode step of ", end="")
    print(", ".join(f"{batch}: {steps[batch] * 1e3:.1f} ms" for batch in BATCHES))
    print(f"{'':34}" + "".join(f"{f'{batch} rows':>18}" for batch in BATCHES))
    for name, params in SETTINGS.items():
        print(f"{name:34}", end="", flush=True)
        for batch in BATCHES:
            cost = microseconds(params, timed.logits[batch])
            share = cost * batch / 1e6 / steps[batch]
            print(f"{cost:9.0f} us {share:5.1%}", end="", flush=True)
        print()


if __name__ == "__main__":
    main()
