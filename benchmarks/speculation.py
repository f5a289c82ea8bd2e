"""What guesses save: the same answers with and without, in turns.

    python -m benchmarks.speculation /tmp/models/BIG/1 [--draft /tmp/models/SMALL/1] [--rounds 3]

Answers of 128 greedy tokens: one that repeats its prompt (a text is asked for again), and one that
is free. Printed are tokens per second of decoding, the ratio to no guesses, and the share of
guesses that were right; medians over rounds. Several streams share their steps.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.versions import open_version
from mrs.model_repo.version import ModelVersion
from mrs.runtime.generation import GenerationRequest, SamplingParams
from mrs.runtime.loading import LoadedModel, load_served
from mrs.runtime.speculation.options import NO_SPECULATION, SpeculationOptions

TOKENS = 128
STREAMS = (1, 4)
TEXT = (
    "The harbour master wrote down every ship that came in: its name, its flag, the cargo in its "
    "hold and the hour at which the tide had turned. In winter the list was short."
)
QUESTIONS = {
    "repeats": f"Repeat the following text word for word, three times.\n\n{TEXT}\n{TEXT}",
    "free": "Write a long story about a lighthouse and the people who live near it.",
}


@dataclass
class Found:
    """One measurement."""

    rate: float
    drafted: int
    accepted: int


async def answers(loaded: LoadedModel, question: str, streams: int) -> Found:
    """Rate from the first token of the last stream that began to the end of all."""
    prompt = loaded.prompts.encode_chat([{"role": "user", "content": question}])
    sampling = SamplingParams(temperature=0.0, max_tokens=TOKENS, ignore_eos=True)
    before = loaded.engine.stats()
    firsts: list[float] = []

    async def one() -> None:
        begun = False
        async for _ in loaded.engine.submit(GenerationRequest(prompt, sampling)):
            if not begun:
                firsts.append(time.perf_counter())
            begun = True

    await asyncio.gather(*(one() for _ in range(streams)))
    seconds = time.perf_counter() - max(firsts)
    after = loaded.engine.stats()
    return Found(
        streams * (TOKENS - 1) / seconds,
        after.draft_tokens - before.draft_tokens,
        after.accepted_tokens - before.accepted_tokens,
    )


def measure(version: ModelVersion, options: SpeculationOptions) -> dict[tuple[str, int], Found]:
    loaded = load_served(version, speculation=options)
    try:
        for question in QUESTIONS.values():  # The prompts are in the cache from here on.
            asyncio.run(answers(loaded, question, 1))
        return {
            (name, streams): asyncio.run(answers(loaded, question, streams))
            for name, question in QUESTIONS.items()
            for streams in STREAMS
        }
    finally:
        loaded.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", type=Path, help="folder of an exported version")
    parser.add_argument("--draft", type=Path, help="that of a smaller one with the same tokens")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most", type=int, default=SpeculationOptions.most, help="guesses")
    arguments = parser.parse_args()
    version = open_version(arguments.version)
    kinds = {
        "none": NO_SPECULATION,
        "lookup": SpeculationOptions(prompt_lookup=True, most=arguments.most),
    }
    if arguments.draft is not None:
        draft = open_version(arguments.draft)
        kinds["draft"] = SpeculationOptions(draft=draft, most=arguments.most)
    rounds: dict[str, list[dict[tuple[str, int], Found]]] = {name: [] for name in kinds}
    for _ in range(arguments.rounds):
        for name, options in kinds.items():
            rounds[name].append(measure(version, options))
    print(f"{'answer':10}{'streams':>8}{'guesses':>10}{'tokens/s':>10}{'ratio':>8}{'right':>8}")
    for question in QUESTIONS:
        for streams in STREAMS:
            rates = {
                name: statistics.median(found[question, streams].rate for found in several)
                for name, several in rounds.items()
            }
            for name, several in rounds.items():
                last = several[-1][question, streams]
                right = f"{last.accepted / last.drafted:.0%}" if last.drafted else ""
                ratio = rates[name] / rates["none"]
                print(
                    f"{question:10}{streams:8}{name:>10}{rates[name]:10.1f}{ratio:8.2f}{right:>8}"
                )


if __name__ == "__main__":
    main()
