"""Greedy answers in a batch of 16 against the same answers alone: how many tokens agree.

    python -m benchmarks.batch_agreement /tmp/models/NAME/1

Matrix kernels add up in another order for other batch sizes; an answer parts from its solo run
where two tokens were level to the last digits. Tokens before that point count as agreeing.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from mrs.model_repo.repository import ModelRepository
from mrs.runtime.generation import GenerationRequest, SamplingParams
from mrs.runtime.loading import LoadedModel, load_served

SUBJECTS = (
    "the sea", "bread", "a bicycle", "winter", "the moon", "bees", "chess", "rivers",
    "a lighthouse", "music", "trains", "gardens", "maps", "glass", "salt", "clouds",
)  # fmt: skip


async def answer(loaded: LoadedModel, number: int) -> list[int]:
    question = f"Write {number % 3 + 1} paragraphs about {SUBJECTS[number]}."
    prompt = loaded.prompts.encode_chat([{"role": "user", "content": question}])
    sampling = SamplingParams(temperature=0.0, max_tokens=32 + 8 * number)
    tokens: list[int] = []
    async for deltas in loaded.engine.submit(GenerationRequest(prompt, sampling)):
        for delta in deltas:
            tokens.extend(delta.token_ids)
    return tokens


async def compare(loaded: LoadedModel) -> None:
    together = await asyncio.gather(*(answer(loaded, number) for number in range(16)))
    alone = [await answer(loaded, number) for number in range(16)]
    agreeing = 0
    for batch, solo in zip(together, alone, strict=True):
        parted = next((i for i, (a, b) in enumerate(zip(batch, solo)) if a != b), len(solo))  # noqa: B905
        agreeing += parted
    total = sum(map(len, alone))
    equal = sum(batch == solo for batch, solo in zip(together, alone, strict=True))
    print(f"{equal} of 16 answers equal; {agreeing} of {total} tokens agree")


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    loaded = load_served(ModelRepository(folder.parent).resolve(str(folder)), prefix_cache_bytes=0)
    try:
        asyncio.run(compare(loaded))
    finally:
        loaded.close()


if __name__ == "__main__":
    main()
