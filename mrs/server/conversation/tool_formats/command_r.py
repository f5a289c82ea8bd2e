"""Command R and its successors: a JSON list of actions.

https://docs.cohere.com/docs/command-r-hf
"""

from __future__ import annotations

from typing import ClassVar

from mrs.server.conversation.tool_formats.marked_list import MarkedListFormat

_ACTION = "<|START_ACTION|>"
_ACTION_END = "<|END_ACTION|>"
_FENCE = "```json"


class CommandRFormat(MarkedListFormat):
    """The first ones: ``Action:`` and a fenced block."""

    name = "command_r"
    begins: ClassVar[tuple[str, ...]] = (
        f"Action: {_FENCE}",
        f"Action:\n{_FENCE}",
        f"Action:{_FENCE}",
    )
    ends: ClassVar[tuple[str, ...]] = ("```",)
    opening = f"Action: {_FENCE}\n["
    closing = "]\n```"
    name_key = "tool_name"
    arguments_key = "parameters"

    @classmethod
    def writes(cls, template: str) -> bool:
        """What its template tells the model to do."""
        return "Action:" in template and "tool_name" in template


class CommandActionFormat(CommandRFormat):
    """Command R7B, A and later: tokens around the list."""

    name = "command_action"
    begins: ClassVar[tuple[str, ...]] = (_ACTION,)
    ends: ClassVar[tuple[str, ...]] = (_ACTION_END,)
    opening = _ACTION + "["
    closing = "]" + _ACTION_END

    @classmethod
    def writes(cls, template: str) -> bool:
        """Its token."""
        return _ACTION in template
