"""What the endpoints answer, as it is documented."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
ItemStatus = Literal["in_progress", "completed", "incomplete"]


class ReasoningText(BaseModel):
    """A piece of reasoning."""

    type: Literal["reasoning_text"]
    text: str


class OutputText(BaseModel):
    """A piece of what the model says."""

    type: Literal["output_text"]
    text: str
    annotations: list[Any]
    logprobs: list[Any]


class OutputReasoning(BaseModel):
    """What the model thought."""

    type: Literal["reasoning"]
    id: str
    status: ItemStatus
    summary: list[Any] = Field(description="Always empty: the reasoning is in the content.")
    content: list[ReasoningText]
    encrypted_content: str | None = Field(
        None, description="The reasoning for clients that keep only this; no secret."
    )


class OutputMessage(BaseModel):
    """What the model said."""

    type: Literal["message"]
    id: str
    status: ItemStatus
    role: Literal["assistant"]
    content: list[OutputText]


class OutputFunctionCall(BaseModel):
    """A call that the model made."""

    type: Literal["function_call"]
    id: str
    status: ItemStatus
    call_id: str
    name: str
    arguments: str
    namespace: str | None = Field(None, description="Present if the function is in one.")


class InputTokensDetails(BaseModel):
    """Of the input tokens, those that were not computed again."""

    cached_tokens: int
    cache_write_tokens: int


class OutputTokensDetails(BaseModel):
    """Of the output tokens, those of the reasoning."""

    reasoning_tokens: int


class ResponseUsage(BaseModel):
    """Tokens of the response, counted as they are drawn."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class ResponseFailure(BaseModel):
    """Why a response failed."""

    type: str
    code: str
    message: str
    param: str | None


class IncompleteDetails(BaseModel):
    """Why a response is incomplete."""

    reason: Literal["max_output_tokens"]


class ResponseResource(BaseModel):
    """A response. What the request left open is told as it was chosen."""

    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    status: Status
    error: ResponseFailure | None
    incomplete_details: IncompleteDetails | None
    model: str
    output: list[OutputReasoning | OutputMessage | OutputFunctionCall]
    output_text: str = Field(description="All that the model said, without reasoning and calls.")
    usage: ResponseUsage | None
    previous_response_id: str | None
    instructions: str | None
    background: bool
    store: bool
    metadata: dict[str, str]
    text: dict[str, Any]
    reasoning: dict[str, Any]
    tools: list[dict[str, Any]]
    tool_choice: str | dict[str, Any]
    parallel_tool_calls: bool
    max_tool_calls: int | None
    max_output_tokens: int | None
    truncation: Literal["auto", "disabled"]
    temperature: float
    top_p: float
    frequency_penalty: float
    presence_penalty: float
    top_logprobs: int
    service_tier: str
    safety_identifier: str | None
    prompt_cache_key: str | None
    user: str | None = None


class ResponseStreamEvent(BaseModel):
    """An event of a stream. Its type is the event's name too; other fields are its type's."""

    model_config = {"extra": "allow"}

    type: Literal[
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.output_item.added",
        "response.output_item.done",
        "response.content_part.added",
        "response.content_part.done",
        "response.output_text.delta",
        "response.output_text.done",
        "response.reasoning_text.delta",
        "response.reasoning_text.done",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.completed",
        "response.incomplete",
        "response.failed",
    ]
    sequence_number: int = Field(description="0, 1, 2, ...")


class DeletedResponse(BaseModel):
    """A response that is no more."""

    id: str
    object: Literal["response"]
    deleted: Literal[True]


class InputItemList(BaseModel):
    """A page of items."""

    object: Literal["list"]
    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool


class InputTokenCount(BaseModel):
    """How many tokens a request has."""

    object: Literal["response.input_tokens"]
    input_tokens: int
