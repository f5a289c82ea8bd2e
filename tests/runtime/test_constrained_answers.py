"""Answers of a whole engine, on a model of random weights, held to grammars."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from mrs.model_repo.version import ModelVersion
from mrs.runtime.generation import (
    FinishReason,
    GenerationDelta,
    GenerationRequest,
    Grammar,
    SamplingParams,
)
from mrs.runtime.grammar import (
    InvalidGrammarError,
    choice_grammar,
    json_object_grammar,
    json_schema_grammar,
    regex_grammar,
)
from mrs.runtime.loading import LoadedModel, load_served

PROMPT = (3, 40, 5)
PERSON = json_schema_grammar(
    {
        "type": "object",
        "properties": {"name": {"type": "string"}, "of": {"type": "array", "items": {}}},
        "required": ["name", "of"],
    }
)


@pytest.fixture(scope="module")
def model(tiny: ModelVersion) -> Iterator[LoadedModel]:
    loaded = load_served(tiny, max_seqs=4, threads=1)
    yield loaded
    loaded.close()


def ask(model: LoadedModel, *requests: GenerationRequest) -> list[list[GenerationDelta]]:
    """The deltas of each request; all are sent at once."""

    async def one(request: GenerationRequest) -> list[GenerationDelta]:
        await model.engine.prepare(request)
        return [delta async for deltas in model.engine.submit(request) for delta in deltas]

    async def all_of_them() -> list[list[GenerationDelta]]:
        return await asyncio.wait_for(asyncio.gather(*map(one, requests)), 60)

    return asyncio.run(all_of_them())


def request(grammar: Grammar | None, n: int = 1, **sampling: object) -> GenerationRequest:
    params = SamplingParams(grammar=grammar, **sampling)  # type: ignore[arg-type]
    return GenerationRequest(PROMPT, params, n)


def text(deltas: list[GenerationDelta], index: int = 0) -> str:
    return "".join(delta.text for delta in deltas if delta.index == index)


@pytest.mark.parametrize("temperature", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("grammar", [json_object_grammar(), PERSON], ids=["object", "person"])
def test_a_random_model_answers_in_json_within_its_limit(
    model: LoadedModel, grammar: Grammar, temperature: float
) -> None:
    asked = request(grammar, n=3, temperature=temperature, max_tokens=60, seed=1)
    (deltas,) = ask(model, asked)
    for index in range(3):
        assert isinstance(json.loads(text(deltas, index)), dict)
    ends = [delta.finish_reason for delta in deltas if delta.finish_reason]
    assert ends == [FinishReason.STOP] * 3


def test_without_a_limit_the_context_is_one(model: LoadedModel) -> None:
    (deltas,) = ask(model, request(PERSON, temperature=2.0, seed=3, ignore_eos=True))
    assert isinstance(json.loads(text(deltas)), dict)


def test_a_choice_is_answered_and_ends_at_once(model: LoadedModel) -> None:
    (deltas,) = ask(model, request(choice_grammar(["yes", "no"]), max_tokens=20, seed=2))
    assert text(deltas) in {"yes", "no"}
    assert deltas[-1].finish_reason is FinishReason.STOP


def test_a_space_at_the_beginning_is_part_of_the_text(model: LoadedModel) -> None:
    (deltas,) = ask(model, request(regex_grammar(" {2}x"), max_tokens=20))
    assert text(deltas) == "  x"


def test_neighbours_are_not_held_to_the_grammar(model: LoadedModel) -> None:
    free = request(None, temperature=0.0, max_tokens=30, ignore_eos=True)
    (alone,) = ask(model, free)
    (beside, *_) = ask(model, free, *[request(PERSON, temperature=1.0, max_tokens=40)] * 3)
    assert text(beside) == text(alone)


def test_log_probabilities_are_those_of_the_model(model: LoadedModel) -> None:
    (free,) = ask(model, request(None, temperature=0.0, max_tokens=1, logprobs=5))
    (held,) = ask(
        model, request(regex_grammar("[xyz]+"), temperature=0.0, max_tokens=1, logprobs=5)
    )
    assert held[0].logprobs[0].top == free[0].logprobs[0].top
    assert held[0].logprobs[0].logprob < free[0].logprobs[0].logprob


def test_the_same_seed_gives_the_same_answer(model: LoadedModel) -> None:
    asked = request(PERSON, temperature=1.5, max_tokens=50, seed=11)
    first, second = ask(model, asked, asked)
    assert text(first) == text(second)


def test_a_grammar_that_does_not_compile_is_refused(model: LoadedModel) -> None:
    with pytest.raises(InvalidGrammarError):
        ask(model, request(regex_grammar("(")))


def test_a_grammar_that_was_not_prepared_is_compiled_on_submission(model: LoadedModel) -> None:
    async def answer() -> str:
        stream = model.engine.submit(request(regex_grammar("a{3}b"), max_tokens=9))
        return "".join([delta.text async for deltas in stream for delta in deltas])

    assert asyncio.run(asyncio.wait_for(answer(), 60)) == "aaab"
