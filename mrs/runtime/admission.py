"""What is checked of a request before the engine takes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mrs.errors import ContextLengthExceededError, InvalidValueError
from mrs.runtime.detokenizer import Detokenizer
from mrs.runtime.generation import GenerationRequest
from mrs.runtime.sampling.bounds import check_sampling, out_of_range


@dataclass(frozen=True)
class EngineModel:
    """What the engine must know of the model.

    Attributes:
        vocab_size: width of the logits.
        eos_token_ids: ids that end an answer.
        max_length: most tokens of prompt and answer together.
        new_detokenizer: makes a fresh detokenizer.
        token_pieces: bytes of each token; what is not there has none.
    """

    vocab_size: int
    eos_token_ids: frozenset[int]
    max_length: int
    new_detokenizer: Callable[[], Detokenizer]
    token_pieces: Sequence[bytes] = ()


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
    if request.n < 1:
        raise out_of_range("n", request.n, "at least 1")
    check_sampling(request.sampling, model.vocab_size)
    wanted = request.sampling.max_tokens or 1
    if len(prompt) + wanted > model.max_length:
        raise ContextLengthExceededError(
            f"This model's context holds {model.max_length} tokens; the request needs "
            f"{len(prompt) + wanted}: {len(prompt)} in the prompt and {wanted} in the answer.",
            hint="Shorten the messages or lower max_tokens.",
        )
