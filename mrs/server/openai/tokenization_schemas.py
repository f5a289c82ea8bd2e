"""What the endpoints of tokens take and answer: llama.cpp's fields and vLLM's."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from mrs.server.openai.sampling_fields import TokenId
from mrs.server.validation import RequestModel, one_that_is_there


class TokenizeRequest(RequestModel):
    """A text, or a conversation with all fields of a chat completion, to make tokens of."""

    model_config = ConfigDict(json_schema_extra=one_that_is_there("content", "prompt", "messages"))

    model: str | None = Field(None, description="The served model, or `default`.")
    content: str | None = Field(None, description="A text, as llama.cpp calls it.")
    prompt: str | None = Field(None, description="A text, as vLLM calls it.")
    messages: Any = Field(None, description="A conversation, which the chat template renders.")
    add_special: bool | None = Field(
        None, description="Begin as the model's prompts do; false if absent with `content`."
    )
    add_special_tokens: bool | None = Field(
        None, description="The same; true if absent with `prompt`."
    )
    parse_special: bool | None = Field(
        None, description="The text of a control token means that token; true if absent."
    )
    with_pieces: bool | None = Field(None, description="Tell the text of each token of `content`.")
    return_token_strs: bool | None = Field(None, description="The same with the others.")


class TokenPiece(BaseModel):
    """A token, and its text, or its bytes where they are no UTF-8."""

    id: int
    piece: str | list[int]


class TokenizeResponse(BaseModel):
    """The tokens. With `content`, llama.cpp's form: `tokens` alone."""

    tokens: list[int] | list[TokenPiece]
    count: int | None = Field(None, description="How many they are.")
    max_model_len: int | None = None
    token_strs: list[str] | None = None


class DetokenizeRequest(RequestModel):
    """Tokens to make a text of."""

    model: str | None = Field(None, description="The served model, or `default`.")
    tokens: Annotated[list[TokenId], Field(max_length=1 << 20)]


class DetokenizeResponse(BaseModel):
    """The text, under llama.cpp's name and under vLLM's. What is no UTF-8 is U+FFFD."""

    content: str
    prompt: str


class ApplyTemplateResponse(BaseModel):
    """The prompt that the chat template makes of a conversation."""

    prompt: str
