"""The body of a text completion request to what the engine is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mrs.errors import InvalidValueError
from mrs.runtime.generation import GenerationRequest
from mrs.server.openai.completion_schemas import DEFAULT_MAX_TOKENS, CompletionRequest
from mrs.server.openai.grammar_fields import asked_grammar
from mrs.server.openai.sampling import sampling_params
from mrs.server.openai.unsupported import CONSTRAINTS_OF_OTHERS, refuse_unsupported
from mrs.server.served_model import ServedModel
from mrs.server.validation import parse_request


def _nothing(value: Any) -> bool:
    return False


def _none_or_empty(value: Any) -> bool:
    return value in ([], {}, "", "none", "auto")


UNSUPPORTED_FIELDS: Mapping[str, Any] = {
    "adapter": _nothing,
    "prompt_embeds": _none_or_empty,
    "tool_choice": _none_or_empty,
    "tools": _none_or_empty,
    **CONSTRAINTS_OF_OTHERS,
}


@dataclass(frozen=True)
class CompletionPrompt:
    """One prompt.

    Attributes:
        text: what is echoed.
        ids: what the model continues.
        begin: how many of the ids are no part of the text.
    """

    text: str
    ids: tuple[int, ...]
    begin: int = 0


@dataclass(frozen=True)
class PreparedCompletion:
    """Ready for the engine.

    Attributes:
        prompts: in order.
        generations: what to ask of it, one for each prompt.
        choices: how many answers to each prompt there are.
        returned: how many of them the client gets.
        scores_only: the client gets the prompts alone.
    """

    prompts: tuple[CompletionPrompt, ...]
    generations: tuple[GenerationRequest, ...]
    choices: int
    returned: int
    scores_only: bool


def parse_completion_request(body: bytes) -> CompletionRequest:
    """Parse a body and check everything that needs no tokenizer.

    Raises:
        RequestError: the request cannot be honoured; the class and the sentence tell why.
    """
    request = parse_request(CompletionRequest, body)
    refuse_unsupported(request.model_extra or {}, UNSUPPORTED_FIELDS)
    _check(request)
    return request


def prepare_completion(request: CompletionRequest, model: ServedModel) -> PreparedCompletion:
    """Tokenize the prompts of a checked request.

    Raises:
        RequestError: a prompt cannot be honoured.
    """
    prompts = tuple(_prompts(request, model))
    returned = request.n or 1
    choices = max(request.best_of or returned, returned)
    limit = DEFAULT_MAX_TOKENS if request.max_tokens is None else request.max_tokens
    sampling = sampling_params(
        request,
        model,
        max_tokens=limit or 1,
        logprobs=request.logprobs,
        prompt_logprobs=request.logprobs if request.echo else None,
        cumulative_logprob=choices > returned,
        grammar=asked_grammar(request.grammar, request.response_format, request.guided()),
    )
    generations = tuple(
        GenerationRequest(
            prompt.ids,
            sampling,
            choices,
            cache_salt=request.cache_salt or "",
            truncate=bool(request.truncate_sequence),
            continues=True,
        )
        for prompt in prompts
    )
    return PreparedCompletion(prompts, generations, choices, returned, limit == 0)


def _prompts(request: CompletionRequest, model: ServedModel) -> Iterator[CompletionPrompt]:
    prompts: list[Any] = [request.prompt]
    path = "prompt"
    if isinstance(request.prompt, list) and not isinstance(request.prompt[0], int):
        prompts = request.prompt
        path = "prompt[{}]"
    for index, prompt in enumerate(prompts):
        encoded = _prompt(prompt, request, model)
        if not encoded.ids:
            raise InvalidValueError(
                "The prompt is empty.", hint="Send some text.", param=path.format(index)
            )
        yield encoded


def _prompt(
    prompt: str | list[int], request: CompletionRequest, model: ServedModel
) -> CompletionPrompt:
    if not isinstance(prompt, str):
        if request.suffix:
            raise InvalidValueError(
                "'suffix' goes with a prompt of text, not with token ids.", param="suffix"
            )
        return CompletionPrompt(model.tokenizer.decode(prompt), tuple(prompt))
    if request.suffix:
        return CompletionPrompt(prompt, model.prompts.encode_infill(prompt, request.suffix))
    ids = model.prompts.encode_text(
        prompt,
        parse_special=bool(request.parse_special),
        add_bos=request.add_special_tokens is not False,
    )
    begin = model.prompts.begin
    # With them parsed, the text itself may spell what the prompt begins with.
    spelled = request.parse_special and prompt.startswith(_spelled(begin, model))
    added = begin and ids[: len(begin)] == begin and not spelled
    return CompletionPrompt(prompt, ids, len(begin) if added else 0)


def _spelled(ids: tuple[int, ...], model: ServedModel) -> str:
    return b"".join(map(model.token_bytes, ids)).decode("utf-8", "replace") or "\0"


def _check(request: CompletionRequest) -> None:
    if request.max_tokens == 0 and not request.echo:
        raise InvalidValueError(
            "'max_tokens' is 0, which asks for nothing without 'echo'.",
            hint="Send at least 1, or echo: true.",
            param="max_tokens",
        )
    returned = request.n or 1
    if request.best_of and request.best_of < returned:
        raise InvalidValueError(
            f"'best_of' is {request.best_of}; it must be at least 'n', which is {returned}.",
            param="best_of",
        )
    if request.stream and request.best_of and request.best_of > returned:
        raise InvalidValueError(
            "'best_of' above 'n' cannot be streamed: the best are known at the end.",
            hint="Send stream: false.",
            param="best_of",
        )
    if request.suffix and request.echo and request.logprobs is not None:
        raise InvalidValueError(
            "The logprobs of an echoed prompt are not told together with a 'suffix'.",
            param="suffix",
        )
