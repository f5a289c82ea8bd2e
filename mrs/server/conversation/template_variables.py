"""The names that a chat template finds besides the messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mrs.server.conversation.chat_format import ChatFormat
from mrs.server.conversation.conversation import Conversation, TemplateMessage

_SWITCHES = ("enable_thinking", "thinking")
_EFFORTS = ("reasoning_effort", "reasoning_strength")
# GPT-OSS knows three.
_HARMONY_EFFORTS = {"none": "low", "minimal": "low", "xhigh": "high", "max": "high"}


def template_variables(conversation: Conversation, form: ChatFormat) -> dict[str, Any]:
    """What a conversation says of thinking, and what its client has set by name."""
    variables: dict[str, Any] = {}
    if conversation.thinking is not None:
        variables |= {name: conversation.thinking for name in _SWITCHES if form.reads(name)}
    effort = conversation.reasoning_effort
    if form.has_channels:
        if effort is None and conversation.thinking is False:
            effort = "low"
        effort = _HARMONY_EFFORTS.get(effort or "", effort)
    if effort is not None:
        variables |= {name: effort for name in _EFFORTS if form.reads(name)}
    return variables | dict(conversation.template_variables)


def with_reasoning_names(message: TemplateMessage, form: ChatFormat) -> TemplateMessage:
    """An earlier answer with its reasoning under each name that the template looks for."""
    reasoning = message.get("reasoning_content")
    if not reasoning:
        return message
    named: Mapping[str, Any] = {**message, "reasoning": reasoning}
    # The template of GPT-OSS refuses a call with both.
    if form.reads("thinking") and not (message.get("tool_calls") and message.get("content")):
        named = {**named, "thinking": reasoning}
    return named
