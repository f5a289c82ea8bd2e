"""What is checked, and made to fit, of a request before the engine takes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mrs.errors import ContextLengthExceededError, InvalidValueError
from mrs.runtime.detokenizer import Detokenizer
from mrs.runtime.generation import GenerationRequest, SamplingParams
from mrs.runtime.grammar import InvalidGrammarError
from mrs.runtime.grammar.compiler import GrammarCompiler
from mrs.runtime.grammar.constraint import GrammarConstraint
from mrs.runtime.sampling.bounds import check_sampling, out_of_range


@dataclass(frozen=True)
class EngineModel:
    """What the engine must know of the model.

    Attributes:
        vocab_size: width of the logits.
        eos_token_ids: ids that end an answer.
        max_length: most tokens of prompt and answer together.
        new_detokenizer: makes a fresh detokenizer, of an answer that continues a text or not.
        token_pieces: bytes of each token; what is not there has none.
        kv_tokens: most tokens of one sequence for which there is memory; None for any.
        bos_token_id: what a prompt begins with, if anything.
        grammars: compiles those of its requests; None if it takes none.
    """

    vocab_size: int
    eos_token_ids: frozenset[int]
    max_length: int
    new_detokenizer: Callable[[bool], Detokenizer]
    token_pieces: Sequence[bytes] = ()
    kv_tokens: int | None = None
    bos_token_id: int | None = None
    grammars: GrammarCompiler | None = None

    @property
    def capacity(self) -> int:
        """Most tokens of prompt and answer, by context and memory."""
        return self.max_length if self.kv_tokens is None else min(self.max_length, self.kv_tokens)

    def constraint(self, sampling: SamplingParams) -> GrammarConstraint | None:
        """What holds one answer to the grammar that is asked for, if one is.

        Raises:
            InvalidGrammarError: it does not compile, or this model takes none.
        """
        if sampling.grammar is None:
            return None
        if self.grammars is None:
            raise InvalidGrammarError("This model takes no grammars.")
        return self.grammars.constraint(sampling)


def admit_request(request: GenerationRequest, model: EngineModel) -> GenerationRequest:
    """Refuse what could only fail later; gives the request as it will be answered.

    Raises:
        ContextLengthExceededError: prompt plus requested tokens exceed the model's length, or the
            memory that there is for them.
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
    if request.timeout is not None and not request.timeout > 0:
        raise out_of_range("timeout", request.timeout, "above 0")
    check_sampling(request.sampling, model.vocab_size)
    if request.truncate:
        request = replace(request, prompt_ids=_truncated(request, model))
    _check_capacity(request, model)
    return request


def _truncated(request: GenerationRequest, model: EngineModel) -> tuple[int, ...]:
    """The prompt without as much of its beginning as is too long, but for the token it began with.

    Where not even that leaves room for the answer, it stays as it is.
    """
    prompt = request.prompt_ids
    room = model.capacity - (request.sampling.max_tokens or 1)
    head = prompt[:1] if prompt[0] == model.bos_token_id else ()
    if len(prompt) <= room or room <= len(head):
        return prompt
    return (*head, *prompt[len(prompt) - room + len(head) :])


def _check_capacity(request: GenerationRequest, model: EngineModel) -> None:
    prompt, wanted = len(request.prompt_ids), request.sampling.max_tokens or 1
    if prompt + wanted <= model.capacity:
        return
    needed = prompt + wanted
    needs = f"the request needs {needed}: {prompt} in the prompt and {wanted} in the answer"
    if needed > model.max_length:
        raise ContextLengthExceededError(
            f"This model's context holds {model.max_length} tokens; {needs}.",
            hint="Shorten the messages or lower max_tokens.",
        )
    raise ContextLengthExceededError(
        f"The memory of the KV cache holds {model.kv_tokens} tokens; {needs}.",
        hint="Shorten the messages, lower max_tokens, or start the server with more "
        "--kv-cache-bytes.",
    )
