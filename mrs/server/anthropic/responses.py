"""The responses, as they are documented."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, RootModel

StopReason = Literal[
    "end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"
]


class TextContent(BaseModel):
    """What the model says."""

    type: Literal["text"]
    text: str


class ThinkingContent(BaseModel):
    """What it thinks. The signature is opaque; clients send it back as it is."""

    type: Literal["thinking"]
    thinking: str
    signature: str


class ToolUseContent(BaseModel):
    """A tool that it calls."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]


ContentBlock = Annotated[
    TextContent | ThinkingContent | ToolUseContent, Field(discriminator="type")
]


class OutputTokensDetails(BaseModel):
    """Of the output tokens, those that were thinking."""

    thinking_tokens: int


class DeltaUsage(BaseModel):
    """Tokens of the request; those of the prompt that were cached are counted apart."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: OutputTokensDetails | None = None


class MessageUsage(DeltaUsage):
    """The same, and the tier."""

    service_tier: Literal["standard"]


class MessageResponse(BaseModel):
    """An answer. In ``message_start``, it is one without content and stop reason."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[ContentBlock]
    stop_reason: StopReason | None
    stop_sequence: str | None
    usage: MessageUsage


class TokensCount(BaseModel):
    """How long a prompt is."""

    input_tokens: int


class AnthropicErrorDetail(BaseModel):
    """What went wrong."""

    type: str
    message: str


class AnthropicErrorBody(BaseModel):
    """The body of every error response, and the data of an ``error`` event."""

    type: Literal["error"]
    error: AnthropicErrorDetail
    request_id: str


class MessageStart(BaseModel):
    """The first event, but for pings."""

    type: Literal["message_start"]
    message: MessageResponse


class ContentBlockStart(BaseModel):
    """A block begins."""

    type: Literal["content_block_start"]
    index: int
    content_block: ContentBlock


class TextDelta(BaseModel):
    """More text."""

    type: Literal["text_delta"]
    text: str


class ThinkingDelta(BaseModel):
    """More thinking."""

    type: Literal["thinking_delta"]
    thinking: str


class SignatureDelta(BaseModel):
    """The end of thinking."""

    type: Literal["signature_delta"]
    signature: str


class InputJsonDelta(BaseModel):
    """More of a call's input."""

    type: Literal["input_json_delta"]
    partial_json: str


class ContentBlockDelta(BaseModel):
    """A block goes on."""

    type: Literal["content_block_delta"]
    index: int
    delta: Annotated[
        TextDelta | ThinkingDelta | SignatureDelta | InputJsonDelta, Field(discriminator="type")
    ]


class ContentBlockStop(BaseModel):
    """A block is complete."""

    type: Literal["content_block_stop"]
    index: int


class Ending(BaseModel):
    """Why the answer ended."""

    stop_reason: StopReason
    stop_sequence: str | None


class MessageDelta(BaseModel):
    """The answer has ended."""

    type: Literal["message_delta"]
    delta: Ending
    usage: DeltaUsage


class MessageStop(BaseModel):
    """The last event."""

    type: Literal["message_stop"]


class Ping(BaseModel):
    """Nothing has happened for a while."""

    type: Literal["ping"]


class MessageStreamEvent(
    RootModel[
        MessageStart
        | ContentBlockStart
        | ContentBlockDelta
        | ContentBlockStop
        | MessageDelta
        | MessageStop
        | Ping
        | AnthropicErrorBody
    ]
):
    """The data of one event; its type is the event's name as well."""
