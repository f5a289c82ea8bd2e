"""Greedy answers among 15 others, and behind a cached prompt, against the same answers alone.

    python -m benchmarks.batch_agreement /tmp/models/NAME/1

Where a kernel rounds otherwise beside other rows, or behind other pieces of a prompt, an answer
parts from its solo run where two tokens are level; `batch_operators` tells which kernels do.
Tokens before that point count as agreeing.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from benchmarks.versions import open_version
from mrs.runtime.generation import GenerationRequest, SamplingParams
from mrs.runtime.loading import LoadedModel, load_served

SUBJECTS = (
    "the sea", "bread", "a bicycle", "winter", "the moon", "bees", "chess", "rivers",
    "a lighthouse", "music", "trains", "gardens", "maps", "glass", "salt", "clouds",
)  # fmt: skip


async def answer(loaded: LoadedModel, number: int, salt: str) -> list[int]:
    question = f"Write {number % 3 + 1} paragraphs about {SUBJECTS[number]}."
    prompt = loaded.prompts.encode_chat([{"role": "user", "content": question}])
    sampling = SamplingParams(temperature=0.0, max_tokens=32 + 8 * number)
    tokens: list[int] = []
    request = GenerationRequest(prompt, sampling, cache_salt=salt)
    async for deltas in loaded.engine.submit(request):
        for delta in deltas:
            tokens.extend(delta.token_ids)
    return tokens


async def compare(loaded: LoadedModel) -> None:
    numbers = range(16)
    together = await asyncio.gather(*(answer(loaded, number, f"t{number}") for number in numbers))
    alone = [await answer(loaded, number, f"a{number}") for number in numbers]
    # With the salt of an answer that was given already, all but the end of the prompt is cached.
    cached = [await answer(loaded, number, f"a{number}") for number in numbers]
    report("among 15 others", together, alone)
    report("prompt cached", cached, alone)


def report(name: str, answers: list[list[int]], alone: list[list[int]]) -> None:
    agreeing = 0
    for other, solo in zip(answers, alone, strict=True):
        parted = next((i for i, (a, b) in enumerate(zip(other, solo)) if a != b), len(solo))  # noqa: B905
        agreeing += parted
    total = sum(map(len, alone))
    equal = sum(other == solo for other, solo in zip(answers, alone, strict=True))
    print(f"{name}: {equal} of 16 answers equal; {agreeing} of {total} tokens agree")


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    loaded = load_served(open_version(folder))
    try:
        asyncio.run(compare(loaded))
    finally:
        loaded.close()


if __name__ == "__main__":
    main()
