"""What of a prompt was cached, and who else is served, changes nothing that is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from mrs.model_repo.version import ModelVersion
from mrs.runtime.generation import GenerationRequest, SamplingParams, TokenLogprobs
from mrs.runtime.loading import LoadedModel, load_served

SAMPLING = SamplingParams(temperature=0.0, max_tokens=1, logprobs=5, ignore_eos=True)


@pytest.fixture(scope="module")
def loaded(tiny: ModelVersion) -> Iterator[LoadedModel]:
    model = load_served(tiny, max_seqs=4, threads=1, prefix_cache_bytes=1 << 24)
    yield model
    model.close()


def prompt(length: int) -> tuple[int, ...]:
    return tuple(5 + (7 * place) % 200 for place in range(length))


async def first_token(
    loaded: LoadedModel, prompt_ids: tuple[int, ...], salt: str
) -> tuple[TokenLogprobs, int]:
    """Of an answer: its first token's logprobs, and the prompt tokens that were cached."""
    request = GenerationRequest(prompt_ids, SAMPLING, cache_salt=salt)
    deltas = [delta async for batch in loaded.engine.submit(request) for delta in batch]
    return deltas[0].logprobs[0], deltas[0].cached_tokens


@pytest.mark.parametrize("length", [18, 19, 60, 100])
@pytest.mark.parametrize("known", [16, 40, 99, 100])
def test_logprobs_behind_a_cached_beginning_are_those_without_to_the_last_bit(
    loaded: LoadedModel, length: int, known: int
) -> None:
    async def ask() -> None:
        salt = f"{length}/{known}"
        alone, _ = await first_token(loaded, prompt(length), f"alone {salt}")
        await first_token(loaded, prompt(known), salt)
        behind, cached = await first_token(loaded, prompt(length), salt)
        assert cached == min(known, length - 2)
        assert behind == alone

    asyncio.run(asyncio.wait_for(ask(), 30))


def test_prompts_that_come_at_once_get_the_logprobs_that_they_get_alone(
    loaded: LoadedModel,
) -> None:
    async def ask() -> None:
        lengths = (3, 30, 31, 90)
        alone = [await first_token(loaded, prompt(n), f"alone {n}") for n in lengths]
        at_once = await asyncio.gather(
            *(first_token(loaded, prompt(n), f"at once {n}") for n in lengths)
        )
        assert at_once == alone

    asyncio.run(asyncio.wait_for(ask(), 30))
