"""The messages of a chat completion request."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    ConfigDict,
    Field,
    Tag,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from mrs.server.openai.tool_schemas import MAX_TOOLS, CalledFunctionField, ToolCallField
from mrs.server.text_unions import text_or_list
from mrs.server.validation import UNSUPPORTED, RequestModel, one_that_is_there

MEDIA_PARTS = frozenset({"image_url", "input_audio", "audio_url", "video_url", "file"})


class ContentPart(RequestModel):
    """A piece of a message: text, or what an assistant said when it refused."""

    model_config = ConfigDict(json_schema_extra=one_that_is_there("text", "refusal"))

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


Content = Annotated[
    Annotated[str, Tag("<string>")] | Annotated[list[ContentPart], Tag("<parts>")],
    text_or_list(
        "<parts>",
        error_type="content_type",
        message="it should be a string, an array of content parts, or null",
    ),
]


class ChatMessage(RequestModel):
    """One turn of the conversation. A content of null is an empty one."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Content | None = None
    name: str | None = None
    tool_call_id: str | None = Field(None, description="Which call this is the result of.")
    tool_calls: list[ToolCallField] | None = Field(None, max_length=MAX_TOOLS)
    function_call: CalledFunctionField | None = Field(None, description="Older form of a call.")
    refusal: str | None = None
    reasoning_content: str | None = Field(
        None, validation_alias=AliasChoices("reasoning_content", "reasoning")
    )
    prefix: bool | None = Field(
        None, description="The answer goes on from this message, the last one, of the assistant."
    )
