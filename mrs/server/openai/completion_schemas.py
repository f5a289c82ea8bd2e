"""The request of a text completion, as it is validated, and the responses, as they are documented.

https://platform.openai.com/docs/api-reference/completions, with the samplers of all endpoints.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field, Tag

from mrs.server.openai.grammar_fields import GrammarField, ResponseFormat
from mrs.server.openai.guided_fields import GuidedFields
from mrs.server.openai.sampling_fields import MAX_CHOICES, SamplingFields, TokenIds
from mrs.server.openai.schemas import StreamOptions, Usage
from mrs.server.text_unions import texts_or_tokens

MAX_PROMPTS = 1024
DEFAULT_MAX_TOKENS = 16


Prompt = Annotated[
    Annotated[str, Tag("<string>")]
    | Annotated[list[str], Field(min_length=1, max_length=MAX_PROMPTS), Tag("<strings>")]
    | Annotated[TokenIds, Tag("<tokens>")]
    | Annotated[list[TokenIds], Field(min_length=1, max_length=MAX_PROMPTS), Tag("<token arrays>")],
    texts_or_tokens("prompt_type"),
]


class CompletionRequest(SamplingFields, GuidedFields):
    """Texts to continue.

    Null means absent, for every field. Fields that this server does not know are ignored; fields
    that it knows and cannot honour are refused with status 400 if they ask for something.
    """

    model: str | None = Field(None, description="The served model, or `default`.")
    prompt: Prompt = Field(
        description="Text, or token ids, or several of either; each gets answers of its own."
    )
    max_tokens: int | None = Field(
        None,
        ge=0,
        description=f"Most tokens to generate; {DEFAULT_MAX_TOKENS} if absent. 0 goes with `echo`.",
    )
    n: int | None = Field(
        None, ge=1, le=MAX_CHOICES, description="Answers to each prompt; 1 if absent."
    )
    best_of: int | None = Field(
        None,
        ge=0,
        le=MAX_CHOICES,
        description="Generate so many, and return the `n` with the highest mean logprob.",
    )
    echo: bool | None = Field(None, description="Begin each text with its prompt.")
    suffix: str | None = Field(
        None, description="What follows the text; for models that can fill in a middle."
    )
    logprobs: int | None = Field(
        None, ge=0, le=20, description="Tell how likely tokens were, and so many of the likeliest."
    )
    grammar: GrammarField | None = Field(None, description="What each text must match.")
    response_format: ResponseFormat | None = Field(None, description="OpenAI's form of the same.")
    parse_special: bool | None = Field(
        None, description="Control tokens in a text prompt are control tokens, and not plain text."
    )
    add_special_tokens: bool | None = Field(
        None, description="Begin a text prompt as the model's prompts begin; true if absent."
    )
    truncate_sequence: bool | None = Field(
        None, description="A prompt that is too long loses its beginning, instead of being refused."
    )
    cache_salt: str | None = Field(
        None,
        max_length=1024,
        description="Computed prompts are reused for requests with the same salt alone.",
    )
    stream: bool | None = Field(None, description="Send the texts as server-sent events.")
    stream_options: StreamOptions | None = None
    user: str | None = Field(None, description="Accepted; nothing is done with it.")


class CompletionLogprobs(BaseModel):
    """How likely each token was, by the model's own distribution; entry by entry of one token.

    A token that is no UTF-8 by itself is spelled ``bytes:\\x..``. What the model could not have
    predicted, as the first token of a prompt, has null.
    """

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int] = Field(description="Where in the text each token begins.")


class CompletionChoice(BaseModel):
    """A text. Those of a prompt follow each other, in the order of the prompts."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length"]


class Completion(BaseModel):
    """All texts."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[CompletionChoice]
    usage: Usage


class CompletionChunkChoice(BaseModel):
    """What a chunk adds to one text."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length"] | None


class CompletionChunk(BaseModel):
    """One event of a stream. The last event is ``[DONE]``, which is not JSON."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[CompletionChunkChoice]
    usage: Usage | None = Field(
        None, description="With `include_usage`: null, and the numbers in a last chunk of its own."
    )
