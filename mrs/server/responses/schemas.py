"""The request, as it is validated."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    model_validator,
)
from pydantic_core import PydanticCustomError

from mrs.server.openai.grammar_fields import GrammarField, ResponseFormat
from mrs.server.openai.sampling_fields import SamplingFields
from mrs.server.responses.item_schemas import Input
from mrs.server.validation import UNSUPPORTED, RequestModel

INCLUDABLE = (
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    # Of items that this server never makes, so that there is nothing to include.
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
)
MAX_TOOLS = 128

ToolName = Annotated[str, StringConstraints(min_length=1, max_length=128)]


class NestedFunction(RequestModel):
    """A function as chat completions have it."""

    name: ToolName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class FunctionToolField(RequestModel):
    """A function that the model may call; flat, or nested as chat completions have it."""

    type: Literal["function"]
    name: ToolName | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    function: NestedFunction | None = None


def _supported_tool(value: Any) -> Any:
    kind = value.get("type") if isinstance(value, dict) else None
    if isinstance(kind, str) and kind not in ("function", "namespace"):
        raise PydanticCustomError(
            UNSUPPORTED,
            "tools of type {kind} are not supported; functions and namespaces of them are",
            {"kind": kind[:60]},
        )
    return value


class NamespaceField(RequestModel):
    """Functions under a common name."""

    type: Literal["namespace"]
    name: ToolName
    description: str | None = None
    tools: list[Annotated[FunctionToolField, BeforeValidator(_supported_tool)]]


def _tool_tag(value: Any) -> str:
    kind = value.get("type") if isinstance(value, dict) else None
    return "<namespace>" if kind == "namespace" else "<function>"


class ReasoningField(RequestModel):
    """Whether and how much the model thinks before it answers.

    A summary may be asked for and is always empty: the reasoning itself is in the answer.
    """

    effort: Literal["off", "none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    summary: Literal["none", "auto", "concise", "detailed"] | None = None
    generate_summary: Literal["auto", "concise", "detailed"] | None = None


class TextFormatField(RequestModel):
    """What the text must be."""

    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    description: str | None = None
    json_schema: dict[str, Any] | bool | None = Field(None, alias="schema")
    strict: bool | None = Field(None, description="The schema always holds, strict or not.")

    @model_validator(mode="after")
    def _with_a_schema(self) -> TextFormatField:
        if self.type == "json_schema" and self.json_schema is None:
            raise PydanticCustomError("missing_schema", "its type needs a schema")
        return self


class TextField(RequestModel):
    """What the text is like."""

    format: TextFormatField | None = None


class ResponseStreamOptions(RequestModel):
    """What a stream tells besides the answer."""

    include_obfuscation: bool | None = Field(
        None, description="Make all deltas of similar length, with random characters."
    )


Metadata = Annotated[
    dict[
        Annotated[str, StringConstraints(max_length=64)],
        Annotated[str, StringConstraints(max_length=512)],
    ],
    Field(max_length=16),
]
OutputTokens = Annotated[int, Field(ge=1)]
ToolField = Annotated[
    Annotated[FunctionToolField, Tag("<function>")] | Annotated[NamespaceField, Tag("<namespace>")],
    Discriminator(_tool_tag),
    BeforeValidator(_supported_tool),
]


class ResponsesRequest(SamplingFields):
    """A turn of a conversation.

    Null means absent, for every field. Fields that this server does not know are ignored; fields
    that it knows and cannot honour are refused with status 400 if they ask for something.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"required": [name], "not": {"properties": {name: {"type": "null"}}}}
                for name in ("input", "previous_response_id")
            ]
        }
    )

    model: str | None = Field(None, description="A served model, or `default`.")
    input: Input | None = Field(None, description="A text of the user, or items.")
    instructions: str | None = Field(
        None, description="A system message for this turn alone; not carried over to the next."
    )
    previous_response_id: str | None = Field(
        None, description="The response that this turn goes on from."
    )
    stream: bool | None = Field(None, description="Send the answer as server-sent events.")
    stream_options: ResponseStreamOptions | None = None
    background: bool | None = Field(
        None, description="Answer at once, and generate whether or not the client listens."
    )
    store: bool | None = Field(None, description="Keep the response; true if absent.")
    metadata: Metadata | None = None
    include: list[Literal[INCLUDABLE]] | None = None  # type: ignore[valid-type]
    max_output_tokens: OutputTokens | None = Field(
        None, description="Most tokens to generate; up to the model's length if absent."
    )
    max_completion_tokens: OutputTokens | None = Field(None, description="The same limit.")
    max_tokens: OutputTokens | None = Field(None, description="The same limit.")
    n: int | None = Field(None, ge=1, le=1, description="There is one answer.")
    logprobs: bool | None = Field(None, description="Include `message.output_text.logprobs`.")
    top_logprobs: int | None = Field(
        None, ge=0, le=20, description="So many of the likeliest tokens at each place."
    )
    tools: list[ToolField] | None = Field(None, max_length=MAX_TOOLS)
    tool_choice: str | dict[str, Any] | None = Field(
        None,
        description="`none`, `auto`, `required`, a function, or `allowed_tools`.",
        union_mode="left_to_right",
    )
    parallel_tool_calls: bool | None = Field(
        None, description="The model may call several functions at once; true if absent."
    )
    max_tool_calls: int | None = Field(
        None,
        ge=0,
        description="Bounds calls of built-in tools. There are none: functions are not bounded.",
    )
    reasoning: ReasoningField | None = None
    enable_thinking: bool | None = Field(None, description="Whether the model thinks first.")
    thinking_token_budget: int | None = Field(
        None, ge=0, description="Reasoning is closed after so many tokens of it."
    )
    text: TextField | None = None
    response_format: ResponseFormat | None = Field(
        None, description="`text.format` as chat completions have it."
    )
    grammar: GrammarField | None = Field(None, description="What the text must match.")
    truncation: Literal["auto", "disabled"] | None = Field(
        None, description="`auto`: the oldest turns are left out where the input is too long."
    )
    cache_salt: str | None = Field(
        None,
        max_length=1024,
        description="Computed prompts are reused for requests with the same salt alone.",
    )
    service_tier: str | None = Field(None, description="Accepted; there is one tier, `default`.")
    user: str | None = Field(None, description="Accepted, and told again.")
    safety_identifier: str | None = Field(None, max_length=64, description="The same.")
    prompt_cache_key: str | None = Field(
        None, max_length=64, description="The same; prompts are found without it."
    )

    @property
    def keeps(self) -> bool:
        """Whether the response is to be stored."""
        return self.store is not False

    @property
    def output_limit(self) -> int | None:
        """Most tokens to generate, by whichever name."""
        return self.max_output_tokens or self.max_completion_tokens or self.max_tokens

    @property
    def wants_logprobs(self) -> bool:
        """Whether the answer tells how likely its tokens were."""
        asked = self.logprobs or bool(self.top_logprobs)
        return asked or "message.output_text.logprobs" in (self.include or ())

    @property
    def wants_encrypted_reasoning(self) -> bool:
        """Whether reasoning comes in its opaque form as well."""
        return "reasoning.encrypted_content" in (self.include or ())
