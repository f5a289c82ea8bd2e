"""What is checked of a request before the engine takes it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from mrs.errors import ContextLengthExceededError, InvalidValueError
from mrs.runtime.detokenizer import Detokenizer
from mrs.runtime.generation import GenerationRequest, SamplingParams


@dataclass(frozen=True)
class EngineModel:
    """What the engine must know of the model.

    Attributes:
        vocab_size: width of the logits.
        eos_token_ids: ids that end an answer.
        max_length: most tokens of prompt and answer together.
        new_detokenizer: makes a fresh detokenizer.
    """

    vocab_size: int
    eos_token_ids: frozenset[int]
    max_length: int
    new_detokenizer: Callable[[], Detokenizer]


def check_request(request: GenerationRequest, model: EngineModel) -> None:
    """Refuse what could only fail later.

    Raises:
        ContextLengthExceededError: prompt plus requested tokens exceed the model's length.
        InvalidValueError: a token id is outside the vocabulary, the prompt is empty, or a number
            is outside what it may be.
    """
    prompt = request.prompt_ids
    if not prompt:
        raise InvalidValueError("The prompt is empty.", hint="Send some text.")
    if min(prompt) < 0 or max(prompt) >= model.vocab_size:
        raise InvalidValueError(
            f"The prompt holds a token id outside 0..{model.vocab_size - 1}.",
            hint="Encode the text with the model's own tokenizer.",
        )
    _check_numbers(request.n, request.sampling)
    wanted = request.sampling.max_tokens or 1
    if len(prompt) + wanted > model.max_length:
        raise ContextLengthExceededError(
            f"This model's context holds {model.max_length} tokens; the request needs "
            f"{len(prompt) + wanted}: {len(prompt)} in the prompt and {wanted} in the answer.",
            hint="Shorten the messages or lower max_tokens.",
        )


def _check_numbers(n: int, sampling: SamplingParams) -> None:
    if n < 1:
        raise _out_of_range("n", n, "at least 1")
    if sampling.max_tokens is not None and sampling.max_tokens < 1:
        raise _out_of_range("max_tokens", sampling.max_tokens, "at least 1")
    if not (math.isfinite(sampling.temperature) and sampling.temperature >= 0):
        raise _out_of_range("temperature", sampling.temperature, "a number from 0 up")
    if not 0 <= sampling.top_p <= 1:
        raise _out_of_range("top_p", sampling.top_p, "between 0 and 1")


def _out_of_range(name: str, value: float, allowed: str) -> InvalidValueError:
    return InvalidValueError(f"'{name}' is {value}; it must be {allowed}.", param=name)
