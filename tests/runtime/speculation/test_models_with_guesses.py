"""Real graphs: what the model says with guesses is what it says without, token for token."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mrs.errors import UsageError
from mrs.export.pipeline import ExportRequest, export_model
from mrs.export.progress import SilentProgress
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.version import ModelVersion
from mrs.runtime.generation import EngineStats, GenerationRequest, SamplingParams
from mrs.runtime.loading import LoadedModel, load_served
from mrs.runtime.speculation.options import SpeculationOptions
from tests.export.gguf_files import bpe_vocabulary, write_llama

PROMPTS = [
    (5, 6, 7, 8) * 6,
    (9, 10, 11),
    tuple(range(4, 60)),
    (5, 6, 7, 8) * 6 + (9,),
    (33,) * 20,
]


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> ModelVersion:
    """The tiny model's weights in 8 bits: right most of the time, and wrong now and then."""
    folder = tmp_path_factory.mktemp("draft")
    request = ExportRequest(str(write_llama(folder / "tiny.gguf")), quant="q8", name="draft")
    return export_model(request, ModelRepository(folder / "repo"), SilentProgress()).version


def answers(
    version: ModelVersion, speculation: SpeculationOptions, **sampling: object
) -> tuple[list[list[int]], EngineStats]:
    """Of all prompts at once, then of two that find their beginnings in the cache."""
    loaded = load_served(
        version, max_seqs=3, threads=1, speculation=speculation, prefix_cache_bytes=1 << 30
    )

    async def one(prompt: tuple[int, ...], seed: int) -> list[int]:
        params = SamplingParams(**{"max_tokens": 40, "seed": seed, **sampling})  # type: ignore[arg-type]
        stream = loaded.engine.submit(GenerationRequest(prompt, params))
        return [token async for deltas in stream for d in deltas for token in d.token_ids]

    async def all_of(model: LoadedModel) -> list[list[int]]:
        first = await asyncio.gather(*(one(prompt, n) for n, prompt in enumerate(PROMPTS)))
        again = [await one((*PROMPTS[n], *first[n]), n) for n in (0, 3)]
        return [*first, *again]

    try:
        return asyncio.run(all_of(loaded)), loaded.engine.stats()
    finally:
        loaded.close()


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("guesser", ["prompt lookup", "draft", "both"])
def test_answers_are_those_without_guesses(
    tiny: ModelVersion, draft: ModelVersion, guesser: str, temperature: float
) -> None:
    options = SpeculationOptions(
        prompt_lookup=guesser != "draft", draft=None if guesser == "prompt lookup" else draft
    )
    sampling = {"temperature": temperature, "ignore_eos": True}
    plain, without = answers(tiny, SpeculationOptions(), **sampling)
    guessed, stats = answers(tiny, options, **sampling)
    assert guessed == plain
    assert stats.draft_tokens > 0
    assert (without.draft_tokens, stats.generated_tokens) == (0, without.generated_tokens)


def test_the_model_itself_is_always_right(tiny: ModelVersion) -> None:
    _, stats = answers(tiny, SpeculationOptions(draft=tiny), temperature=0.0, ignore_eos=True)
    assert stats.draft_tokens == stats.accepted_tokens > 50


def test_a_draft_model_with_other_tokens_is_refused(tiny: ModelVersion, tmp_path: Path) -> None:
    tokens = list(bpe_vocabulary()[0])
    tokens[-1], tokens[-2] = tokens[-2], tokens[-1]
    source = write_llama(tmp_path / "other.gguf", metadata={"tokenizer.ggml.tokens": tokens})
    request = ExportRequest(str(source), quant="fp32", name="other")
    other = export_model(request, ModelRepository(tmp_path / "repo"), SilentProgress()).version
    with pytest.raises(UsageError, match="The tokens of the draft model other:1 are not those of"):
        load_served(tiny, threads=1, speculation=SpeculationOptions(draft=other))


@pytest.mark.parametrize("most", [0, 16])
def test_guesses_have_bounds(tiny: ModelVersion, most: int) -> None:
    with pytest.raises(UsageError, match="--max-guesses"):
        load_served(tiny, threads=1, speculation=SpeculationOptions(prompt_lookup=True, most=most))
