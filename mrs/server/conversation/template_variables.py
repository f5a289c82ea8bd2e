"""The names that a chat template finds besides the messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mrs.chat_template.chat_template import RESERVED
from mrs.errors import InvalidValueError
from mrs.server.conversation.chat_format import ChatFormat
from mrs.server.conversation.conversation import Conversation, TemplateMessage

_SWITCHES = ("enable_thinking", "thinking")
_RESERVED = RESERVED | {"tools", "documents", "tokenize", "chat_template", "conversation"}
_LONGEST_SHOWN = 60
_EFFORTS = ("reasoning_effort", "reasoning_strength")
# GPT-OSS knows three.
_HARMONY_EFFORTS = {"none": "low", "minimal": "low", "xhigh": "high", "max": "high"}


def template_variables(conversation: Conversation, form: ChatFormat) -> dict[str, Any]:
    """What a conversation says of thinking, and what its client has set by name.

    Raises:
        InvalidValueError: the client sets what the template does not read, or may not be set.
    """
    own = conversation.template_variables
    _check(own, form)
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
    return variables | dict(own)


def _check(variables: Mapping[str, Any], form: ChatFormat) -> None:
    for name in sorted(variables):
        param = f"chat_template_kwargs.{name[:_LONGEST_SHOWN]}"
        if name in _RESERVED:
            raise InvalidValueError(f"The template variable {name!r} cannot be set.", param=param)
        if name not in form.variables:
            raise InvalidValueError(
                f"The model's chat template does not read {name[:_LONGEST_SHOWN]!r}.",
                hint=_hint(form.variables - _RESERVED),
                param=param,
            )


def _hint(names: frozenset[str]) -> str:
    return f"It reads: {', '.join(sorted(names))}." if names else "It reads no variables."


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
