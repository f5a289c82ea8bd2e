"""The request, as it is validated, and the responses, as they are documented.

https://platform.openai.com/docs/api-reference/chat, with samplers added that open models' users
know (``top_k``, ``min_p``, DRY, XTC and others), and ``ignore_eos``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

from mrs.server.openai.grammar_fields import GrammarField, ResponseFormat
from mrs.server.openai.guided_fields import GuidedFields
from mrs.server.openai.message_schemas import ChatMessage, Content
from mrs.server.openai.sampling_fields import MAX_CHOICES, SamplingFields
from mrs.server.openai.tool_schemas import (
    MAX_TOOLS,
    CalledFunction,
    CalledFunctionDelta,
    FunctionChoiceField,
    FunctionDefinition,
    Tool,
    ToolCall,
    ToolCallDelta,
    ToolChoiceField,
)
from mrs.server.validation import RequestModel


class StreamOptions(RequestModel):
    """What a stream tells besides the text."""

    include_usage: bool | None = Field(None, description="A last chunk tells the usage.")


def _as_messages(value: Any) -> Any:
    return [{"role": "user", "content": value}] if isinstance(value, str) else value


_MessagesOrText = BeforeValidator(_as_messages, json_schema_input_type=list[ChatMessage] | str)


class Prediction(RequestModel):
    """What the answer may be like."""

    type: Literal["content"]
    content: Content


class ChatCompletionRequest(SamplingFields, GuidedFields):
    """A conversation to continue.

    Null means absent, for every field. Fields that this server does not know are ignored; fields
    that it knows and cannot honour (``audio``, ``web_search_options`` and others) are refused with
    status 400 if they ask for something.
    """

    model: str | None = Field(None, description="The served model, or `default`.")
    messages: Annotated[list[ChatMessage], _MessagesOrText] = Field(
        min_length=1, description="The turns so far; a string is one turn of the user."
    )
    max_completion_tokens: int | None = Field(
        None, ge=1, description="Most tokens to generate; up to the model's length if absent."
    )
    max_tokens: int | None = Field(None, ge=1, description="Older name of the same limit.")
    n: int | None = Field(None, ge=1, le=MAX_CHOICES, description="Number of answers; 1 if absent.")
    tools: list[Tool] | None = Field(
        None, max_length=MAX_TOOLS, description="Functions that the model may call."
    )
    tool_choice: ToolChoiceField | None = Field(
        None, description="`none`, `auto` (usual with tools), `required`, or tools by name."
    )
    parallel_tool_calls: bool | None = Field(
        None, description="If false, an answer ends with its first call."
    )
    functions: list[FunctionDefinition] | None = Field(
        None, max_length=MAX_TOOLS, description="Older form of `tools`."
    )
    function_call: FunctionChoiceField | None = Field(
        None, description="Older form of `tool_choice`."
    )
    response_format: ResponseFormat | None = Field(
        None, description="`json_object`, or `json_schema` with a schema, which always holds."
    )
    grammar: GrammarField | None = Field(
        None, description="What the answer must match; instead of `response_format`."
    )
    enable_thinking: bool | None = Field(
        None, description="Whether a model that can reason does; its own habit if absent."
    )
    reasoning_effort: str | None = Field(
        None,
        description="`none` or `off` (no reasoning), `minimal`, `low`, `medium`, `high`, `xhigh` "
        "or `max`; what it means is up to the model.",
    )
    thinking_token_budget: int | None = Field(
        None, ge=0, description="Reasoning is closed after so many tokens of it."
    )
    chat_template_kwargs: dict[str, Any] | None = Field(
        None, description="Variables that the model's chat template reads."
    )
    continue_final_message: bool | None = Field(
        None, description="The answer goes on from the last message, which is the assistant's."
    )
    truncate_sequence: bool | None = Field(
        None, description="A prompt that is too long loses its beginning, and is not refused."
    )
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
    verbosity: Literal["low", "medium", "high"] | None = Field(
        None, description="For models whose chat template reads it; others know `medium` alone."
    )
    metadata: dict[str, str] | None = Field(
        None, max_length=16, description="Accepted; nothing is stored."
    )
    user: str | None = Field(None, description="Accepted; no user is told from another.")
    prediction: Prediction | None = Field(
        None, description="Accepted: it can make an answer faster, never another one."
    )


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
    avg_tok_per_sec: float = Field(description="Tokens of prompt and answer in all the time.")
    avg_prompt_tok_per_sec: float = Field(description="Tokens of the prompt until the first token.")
    avg_compl_tok_per_sec: float = Field(
        description="Tokens after the first; 0 where there are none."
    )
    total_time_sec: float = Field(description="Seconds until the last token.")
    total_prompt_time_sec: float = Field(
        description="Seconds until the first token; waiting for a turn is part of it."
    )
    total_completion_time_sec: float = Field(
        description="Seconds from the first token to the last."
    )


FinishReason = Literal["stop", "length", "tool_calls", "function_call"]


class AssistantMessage(BaseModel):
    """The answer."""

    role: Literal["assistant"]
    content: str | None = Field(description="Null where the answer is calls and no text.")
    refusal: None
    reasoning_content: str | None = Field(
        None, description="What the model thought; absent if it did not."
    )
    tool_calls: list[ToolCall] | None = Field(None, description="Absent if there are none.")
    function_call: CalledFunction | None = Field(
        None, description="The call, where the request had `functions`."
    )


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
    finish_reason: FinishReason


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
    """What a chunk adds: the role first, then reasoning, text and calls, then nothing."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCallDelta] | None = None
    function_call: CalledFunctionDelta | None = None


class ChunkChoice(BaseModel):
    """What a chunk adds to one of ``n`` answers."""

    index: int
    delta: Delta
    logprobs: ChoiceLogprobs | None
    finish_reason: FinishReason | None


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


class ErrorDetail(BaseModel):
    """What went wrong, for people and for programs."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """The body of every error response."""

    error: ErrorDetail
