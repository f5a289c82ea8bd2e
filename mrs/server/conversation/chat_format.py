"""What a model's chat template tells of its answers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from mrs.server.conversation.reasoning import ReasoningFormat, reasoning_format
from mrs.server.conversation.template_traits import TemplateTraits, template_traits
from mrs.server.conversation.tool_formats import (
    FALLBACK,
    ToolFormat,
    format_named,
    recognized_format,
)
from mrs.server.conversation.tool_formats.harmony import HarmonyFormat
from mrs.server.served_model import ServedModel


@dataclass(frozen=True)
class ChatFormat:
    """How one model writes its answers, and what its template shows it.

    Attributes:
        template: text of the chat template; empty if there is none.
        tool_template: the one for conversations with tools.
        reasoning: marks of reasoning; None where there are none, or where there are channels.
        tools: how calls are written.
    """

    template: str
    tool_template: str
    reasoning: ReasoningFormat | None
    tools: ToolFormat

    @property
    def has_channels(self) -> bool:
        """Answers are messages on channels (GPT-OSS)."""
        return isinstance(self.tools, HarmonyFormat)

    @property
    def traits(self) -> TemplateTraits:
        """What the template for conversations with tools shows; tried out on first use."""
        return template_traits(self.tool_template)

    def warm_up(self) -> None:
        """Try the templates out now: the first request with tools would stand still for it."""
        _ = self.variables

    @property
    def variables(self) -> frozenset[str]:
        """The names that its templates look for."""
        if not self.template:
            return self.traits.variables
        return template_traits(self.template).variables | self.traits.variables

    @property
    def switches_thinking(self) -> bool:
        """Whether a template has a switch for reasoning."""
        return self.reads("enable_thinking") or "thinking" in self.variables

    def reads(self, variable: str) -> bool:
        """Whether a template mentions a variable."""
        return variable in self.template or variable in self.tool_template


def chat_format(model: ServedModel) -> ChatFormat:
    """The format of a model."""
    return _chat_format(model.chat_template or "", model.tool_template or "", model.tool_format)


@lru_cache(maxsize=64)
def _chat_format(template: str, tool_template: str, tool_format: str | None) -> ChatFormat:
    both = template + tool_template
    found = recognized_format(both)
    tools = format_named(tool_format) if tool_format else found or FALLBACK()
    return ChatFormat(
        template=template,
        tool_template=tool_template or template,
        reasoning=None if isinstance(found, HarmonyFormat) else reasoning_format(both),
        tools=tools,
    )
