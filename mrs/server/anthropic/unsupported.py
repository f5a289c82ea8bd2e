"""Fields that are understood and cannot be honoured; see `mrs.server.openai.unsupported`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def _nothing(value: Any) -> bool:
    return False


def _empty(value: Any) -> bool:
    return value in ([], {}, "")


def _off(value: Any) -> bool:
    return value is False


def _no_skills(value: Any) -> bool:
    """A container by its name is for tools that run there: without them it asks for nothing."""
    return isinstance(value, str) or (isinstance(value, dict) and not value.get("skills"))


def _keeps_thinking(value: Any) -> bool:
    """Thinking of earlier turns goes to the template, which keeps it or not."""
    edits = value.get("edits") if isinstance(value, dict) else None
    return not edits or (
        isinstance(edits, list)
        and all(
            isinstance(edit, dict) and str(edit.get("type", "")).startswith("clear_thinking_")
            for edit in edits
        )
    )


# Anthropic's, then those that mistral.rs adds.
UNSUPPORTED_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "container": _no_skills,
    "context_management": _keeps_thinking,
    "mcp_servers": _empty,
    "adapter": _nothing,
    "agent_permission": _nothing,
    "code_execution_permission": _nothing,
    "enable_code_execution": _off,
    "files": _empty,
    "logprobs": _off,
    "max_tool_rounds": _nothing,
    "session_id": _nothing,
    "web_search_options": _nothing,
}
