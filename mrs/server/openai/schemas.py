"""The request, as it is validated, and the responses, as they are documented.

https://platform.openai.com/docs/api-reference/chat, with samplers added that open models' users
know (``top_k``, ``min_p``, DRY, XTC and others), and ``ignore_eos``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from mrs.server.openai.sampling_fields import MAX_CHOICES, SamplingFields
from mrs.server.validation import UNSUPPORTED, RequestModel

MEDIA_PARTS = frozenset({"image_url", "input_audio", "audio_url", "video_url", "file"})


class ContentPart(RequestModel):
    """A piece of a message: text, or what an assistant said when it refused."""

    type: Literal["text", "refusal"] = "text"
    text: str | None = None
    refusal: str | None = None

    @field_validator("type", mode="before")
    @classmethod
    def _no_media(cls, value: Any) -> Any:
        if isinstance(value, str) and value in MEDIA_PARTS:
            raise PydanticCustomError(
                UNSUPPORTED, "this model reads text only, not parts of type {kind}", {"kind": value}
            )
        return value

    @model_validator(mode="after")
    def _not_empty(self) -> ContentPart:
        if getattr(self, self.type) is None:
            raise PydanticCustomError(
                "empty_part", "a part of type {kind} needs its {kind}", {"kind": self.type}
            )
        return self


def _content_tag(value: Any) -> str | None:
    if isinstance(value, str):
        return "<string>"
    return "<parts>" if isinstance(value, list) else None


Content = Annotated[
    Annotated[str, Tag("<string>")] | Annotated[list[ContentPart], Tag("<parts>")],
    Discriminator(
        _content_tag,
        custom_error_type="content_type",
        custom_error_message="it should be a string, an array of content parts, or null",
    ),
]


class ChatMessage(RequestModel):
    """One turn of the conversation. A content of null is an empty one."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Content | None = None
    name: str | None = None
    tool_call_id: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None


class StreamOptions(RequestModel):
    """What a stream tells besides the text."""

    include_usage: bool | None = None


class ChatCompletionRequest(SamplingFields):
    """A conversation to continue.

    Null means absent, for every field. Fields that this server does not know are ignored; fields
    that it knows and cannot honour (``tools``, ``response_format`` other than text, and others) are
    refused with status 400 if they ask for something.
    """

    model: str | None = Field(None, description="The served model, or `default`.")
    messages: list[ChatMessage] = Field(min_length=1)
    max_completion_tokens: int | None = Field(
        None, ge=1, description="Most tokens to generate; up to the model's length if absent."
    )
    max_tokens: int | None = Field(None, ge=1, description="Older name of the same limit.")
    n: int | None = Field(None, ge=1, le=MAX_CHOICES, description="Number of answers; 1 if absent.")
    logprobs: bool | None = Field(None, description="Tell how likely each token was.")
    top_logprobs: int | None = Field(
        None,
        ge=0,
        le=20,
        description="So many of the likeliest tokens at each place; needs logprobs.",
    )
    cache_salt: str | None = Field(
        None,
        max_length=1024,
        description="Computed prompts are reused for requests with the same salt alone.",
    )
    stream: bool | None = Field(None, description="Send the answer as server-sent events.")
    stream_options: StreamOptions | None = None
    service_tier: str | None = Field(None, description="Accepted; there is one tier, `default`.")


class PromptTokensDetails(BaseModel):
    """Of the prompt tokens, those that were not computed again."""

    cached_tokens: int


class CompletionTokensDetails(BaseModel):
    """Of the generated tokens, those that are not part of the answer's text."""

    reasoning_tokens: int


class Usage(BaseModel):
    """Tokens of the request. A generated token counts as soon as it is drawn, the final
    end-of-sequence token included."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails


class AssistantMessage(BaseModel):
    """The answer."""

    role: Literal["assistant"]
    content: str
    refusal: None


class TopLogprob(BaseModel):
    """A token that could have been drawn."""

    token: str
    logprob: float
    bytes: list[int] | None


class TokenLogprob(TopLogprob):
    """The token that was drawn."""

    top_logprobs: list[TopLogprob]


class ChoiceLogprobs(BaseModel):
    """How likely each token of an answer was, by the model's own distribution."""

    content: list[TokenLogprob] | None
    refusal: None


class Choice(BaseModel):
    """One of ``n`` answers."""

    index: int
    message: AssistantMessage
    logprobs: ChoiceLogprobs | None
    finish_reason: Literal["stop", "length"]


class ChatCompletion(BaseModel):
    """A whole answer."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[Choice]
    usage: Usage
    service_tier: str | None = Field(None, description="Present if the request named one.")


class Delta(BaseModel):
    """What a chunk adds: the role first, then text, then nothing."""

    role: Literal["assistant"] | None = None
    content: str | None = None


class ChunkChoice(BaseModel):
    """What a chunk adds to one of ``n`` answers."""

    index: int
    delta: Delta
    logprobs: ChoiceLogprobs | None
    finish_reason: Literal["stop", "length"] | None


class ChatCompletionChunk(BaseModel):
    """One event of a streamed answer. The last event is ``[DONE]``, which is not JSON."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChunkChoice]
    usage: Usage | None = Field(
        None, description="With `include_usage`: null, and the numbers in a last chunk of its own."
    )
    service_tier: str | None = Field(None, description="Present if the request named one.")


class ModelCard(BaseModel):
    """A model that is served."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "mrs"
    max_model_len: int = Field(description="Most tokens of prompt and answer together.")


class ModelList(BaseModel):
    """The models that are served."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


class ErrorDetail(BaseModel):
    """What went wrong, for people and for programs."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """The body of every error response."""

    error: ErrorDetail
