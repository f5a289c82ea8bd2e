"""What fits, what is made to fit, and what never will."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mrs.errors import ContextLengthExceededError
from mrs.runtime.admission import EngineModel, admit_request
from mrs.runtime.generation import GenerationRequest, SamplingParams

BOS = 1
MODEL = EngineModel(100, frozenset(), 20, lambda: None, bos_token_id=BOS)  # type: ignore[arg-type]
SMALL = replace(MODEL, kv_tokens=12)


def request(prompt: int, wanted: int | None = None, **options: bool) -> GenerationRequest:
    return GenerationRequest(
        tuple(range(10, 10 + prompt)), SamplingParams(max_tokens=wanted), **options
    )


def test_the_smaller_of_context_and_memory_is_what_fits() -> None:
    assert admit_request(request(15, 5), MODEL) == request(15, 5)
    assert admit_request(request(9, 3), SMALL) == request(9, 3)
    assert (MODEL.capacity, SMALL.capacity) == (20, 12)


@pytest.mark.parametrize(
    ("model", "prompt", "wanted", "message"),
    [
        (MODEL, 15, 6, "context holds 20 tokens; the request needs 21: 15 in the prompt and 6 in"),
        (SMALL, 15, 6, "context holds 20 tokens; the request needs 21"),
        (SMALL, 9, 4, "memory of the KV cache holds 12 tokens; the request needs 13: 9 in the"),
        (SMALL, 12, None, "memory of the KV cache holds 12 tokens; the request needs 13"),
    ],
)
def test_what_never_fits_is_refused_with_both_numbers(
    model: EngineModel, prompt: int, wanted: int | None, message: str
) -> None:
    with pytest.raises(ContextLengthExceededError, match=message):
        admit_request(request(prompt, wanted), model)


@pytest.mark.parametrize(("model", "left"), [(MODEL, 15), (SMALL, 7)])
def test_truncation_drops_just_enough_of_the_beginning(model: EngineModel, left: int) -> None:
    long = request(50, 5, truncate=True)
    assert admit_request(long, model).prompt_ids == long.prompt_ids[-left:]


def test_truncation_keeps_the_token_that_prompts_begin_with() -> None:
    long = replace(request(50, 5, truncate=True), prompt_ids=(BOS, *range(10, 60)))
    assert admit_request(long, MODEL).prompt_ids == (BOS, *range(46, 60))


def test_what_fits_is_not_truncated() -> None:
    assert admit_request(request(15, 5, truncate=True), MODEL).prompt_ids == tuple(range(10, 25))


@pytest.mark.parametrize("first", [BOS, 5])
def test_an_answer_that_leaves_no_room_for_a_prompt_is_refused(first: int) -> None:
    long = replace(request(50, 20, truncate=True), prompt_ids=(first, *range(10, 60)))
    with pytest.raises(ContextLengthExceededError, match="needs 71"):
        admit_request(long, MODEL)
