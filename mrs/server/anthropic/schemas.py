"""The request, as it is validated (https://docs.claude.com/en/api/messages).

Beside Anthropic's fields it takes the samplers of all endpoints, and what mistral.rs adds.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator
from pydantic_core import PydanticCustomError

from mrs.server.anthropic.blocks import Content, TextBlocks
from mrs.server.openai.grammar_fields import GrammarField, ResponseFormat
from mrs.server.openai.sampling_fields import SamplingFields, StopString
from mrs.server.validation import UNSUPPORTED, RequestModel

MAX_STOP_SEQUENCES = 64
ToolName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_.-]{1,128}$")]


class Message(RequestModel):
    """One turn, or a part of one: turns of one role that follow each other are put together."""

    role: Literal["user", "assistant", "system"]
    content: Content


class Tool(RequestModel):
    """A function that the model may call and the client carries out."""

    type: Literal["custom"] | None = None
    name: ToolName
    description: str | None = None
    input_schema: dict[str, Any]
    strict: bool | None = None
    input_examples: list[dict[str, Any]] | None = Field(None, max_length=64)
    allowed_callers: list[str] | None = None

    @model_validator(mode="before")
    @classmethod
    def _no_server_tools(cls, value: Any) -> Any:
        kind = value.get("type") if isinstance(value, dict) else None
        if isinstance(kind, str) and kind != "custom":
            message = "this server has no tools of its own, such as {kind}; define custom ones"
            raise PydanticCustomError(UNSUPPORTED, message, {"kind": kind[:60]})
        return value

    @field_validator("allowed_callers")
    @classmethod
    def _called_by_the_model(cls, value: list[str] | None) -> list[str] | None:
        if value and "direct" not in value:
            raise PydanticCustomError(UNSUPPORTED, "tools are called by the model alone: direct")
        return value

    @field_validator("input_schema")
    @classmethod
    def _of_an_object(cls, value: dict[str, Any]) -> dict[str, Any]:
        if value.get("type", "object") != "object":
            raise PydanticCustomError("schema_type", "its type should be object")
        return value


class ToolChoice(RequestModel):
    """Whether the model calls tools."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None

    @model_validator(mode="after")
    def _named(self) -> ToolChoice:
        if self.type == "tool" and not self.name:
            raise PydanticCustomError("tool_name", "a choice of type tool needs its name")
        return self


class Thinking(RequestModel):
    """Whether the model thinks before it answers."""

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: int | None = Field(
        None,
        ge=1,
        description="Below `max_tokens`, of which thinking is a part: it is closed after so many "
        "tokens, but for models with channels (GPT-OSS).",
    )
    display: Literal["summarized", "omitted"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _not_between_tools_alone(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("type") == "between_tools":
            raise PydanticCustomError(UNSUPPORTED, "a model here thinks first, or not at all")
        return value


class JsonOutputFormat(RequestModel):
    """What the answer's text must match."""

    type: Literal["json_schema"]
    json_schema: dict[str, Any] = Field(alias="schema")


class OutputConfig(RequestModel):
    """How the answer should be."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: JsonOutputFormat | None = None


class CountTokensRequest(SamplingFields):
    """A conversation."""

    model: str | None = Field(None, description="The served model, or `default`.")
    messages: list[Message] = Field(min_length=1)
    system: TextBlocks | None = Field(None, description="Instructions, before all messages.")
    tools: list[Tool] | None = Field(None, max_length=512)
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = Field(
        None, description="Off if absent, as far as the model's template can turn it off."
    )
    output_config: OutputConfig | None = None
    output_format: JsonOutputFormat | None = Field(
        None, description="Older name of `output_config.format`."
    )
    enable_thinking: bool | None = Field(None, description="mistral.rs's name of `thinking`.")
    grammar: GrammarField | None = Field(None, description="What the text must match.")
    response_format: ResponseFormat | None = Field(None, description="OpenAI's form of the same.")
    reasoning_effort: str | None = Field(
        None, max_length=32, description="mistral.rs's name of `output_config.effort`."
    )


class MessagesRequest(CountTokensRequest):
    """A conversation to continue.

    Null means absent, for every field. Fields that this server does not know are ignored; fields
    that it knows and cannot honour are refused with status 400 if they ask for something.
    """

    max_tokens: int = Field(
        ge=1, description="Most tokens to generate; the end of the context ends an answer too."
    )
    stop_sequences: list[StopString] | None = Field(
        None, max_length=MAX_STOP_SEQUENCES, description="Strings that end the answer."
    )
    stream: bool | None = Field(None, description="Send the answer as server-sent events.")
    metadata: dict[str, Any] | None = Field(None, description="Accepted; nothing is done with it.")
    service_tier: str | None = Field(None, description="Accepted; there is one tier, `standard`.")
    cache_salt: str | None = Field(
        None,
        max_length=1024,
        description="Computed prompts are reused for requests with the same salt alone.",
    )
    truncate_sequence: bool | None = Field(
        None, description="A prompt that is too long loses its beginning, instead of being refused."
    )
