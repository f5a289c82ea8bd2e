"""A conversation as every dialect hands it over.

Chat completions, Responses and Messages say the same in three forms. Each translates its request
to a `Conversation`, has it made a prompt (`prepare.py`), and translates the `events` back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from mrs.runtime.generation import Grammar, SamplingParams

TemplateMessage = Mapping[str, Any]
"""A message as chat templates know it: ``role`` (system, user, assistant or tool), ``content`` (a
string); of an assistant also ``reasoning_content`` and ``tool_calls``, a list of ``{"id", "type":
"function", "function": {"name", "arguments"}}`` with the arguments as an object; of a tool
``tool_call_id`` and ``name``."""


@dataclass(frozen=True)
class FunctionTool:
    """A function that the model may call.

    Attributes:
        name: what it calls it.
        description: what it is for.
        parameters: JSON schema of its arguments; None for any object.
        strict: arguments must match the schema also where the model chooses to call.
    """

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    strict: bool = False


class ToolMode(StrEnum):
    """Whether the model calls tools."""

    NONE = "none"
    AUTO = "auto"
    REQUIRED = "required"


@dataclass(frozen=True)
class ToolChoice:
    """Which tools the model may call, and whether it must.

    Attributes:
        mode: whether.
        names: which, all of them being known; None for all.
    """

    mode: ToolMode = ToolMode.AUTO
    names: frozenset[str] | None = None


@dataclass(frozen=True)
class Conversation:
    """What the model is asked.

    Attributes:
        messages: in order; not empty.
        tools: functions that it may call.
        tool_choice: which of them, and whether it must.
        parallel_tool_calls: it may call several at once.
        response_format: what its text must match; None for anything. Reasoning is not part of it.
        thinking: whether it thinks before it answers; None for what its template does.
        reasoning_effort: none, minimal, low, medium, high or xhigh; None for the template's own.
        template_variables: more names for the chat template, checked by the dialect.
        continue_final: the last message is an assistant's, and the answer goes on from its end.
    """

    messages: tuple[TemplateMessage, ...]
    tools: tuple[FunctionTool, ...] = ()
    tool_choice: ToolChoice = field(default_factory=ToolChoice)
    parallel_tool_calls: bool = True
    response_format: Grammar | None = None
    thinking: bool | None = None
    reasoning_effort: str | None = None
    template_variables: Mapping[str, Any] = field(default_factory=dict)
    continue_final: bool = False


@dataclass(frozen=True)
class AnswerOptions:
    """How the answers are made.

    Attributes:
        sampling: how tokens are drawn; ``grammar`` and ``reasoning_budget`` are filled in by
            `prepare`.
        n: number of answers.
        cache_salt: see `mrs.runtime.generation.GenerationRequest`.
        truncate: the same.
        reasoning_budget: most tokens of reasoning; None for as many as the answer may have. It
            means nothing to a model without marks of reasoning.
    """

    sampling: SamplingParams
    n: int = 1
    cache_salt: str = ""
    truncate: bool = False
    reasoning_budget: int | None = None
