"""What an answer consists of, piece by piece and in order.

Of one answer: reasoning, then text and tool calls in the order in which the model made them, then
`Finished`. Calls do not overlap: one has ended when the next begins.
"""

from __future__ import annotations

from dataclasses import dataclass

from mrs.runtime.generation import TokenLogprobs


@dataclass(frozen=True)
class ReasoningDelta:
    """More of what the model thinks."""

    text: str


@dataclass(frozen=True)
class TextDelta:
    """More of what it says.

    Attributes:
        text: may be empty where there are logprobs.
        logprobs: of the tokens drawn since the last text, where they were asked for.
    """

    text: str
    logprobs: tuple[TokenLogprobs, ...] = ()


@dataclass(frozen=True)
class ToolCallBegun:
    """It calls a tool.

    Attributes:
        index: 0 for the answer's first call.
        id: unique; the same in all dialects' events of this call.
        name: of the function.
    """

    index: int
    id: str
    name: str


@dataclass(frozen=True)
class ToolCallArguments:
    """More of the call's arguments: a piece of JSON text."""

    index: int
    fragment: str


@dataclass(frozen=True)
class ToolCallEnded:
    """The call is complete.

    Attributes:
        index: of the call.
        arguments: all fragments, put together: a JSON object.
    """

    index: int
    arguments: str


@dataclass(frozen=True)
class Finished:
    """The answer has ended.

    Attributes:
        reason: ``stop``, ``length`` or ``tool_calls``.
        stop: the stop string that ended it, if one did.
        reasoning_tokens: tokens of the reasoning.
    """

    reason: str
    stop: str | None = None
    reasoning_tokens: int = 0


AnswerEvent = (
    ReasoningDelta | TextDelta | ToolCallBegun | ToolCallArguments | ToolCallEnded | Finished
)
