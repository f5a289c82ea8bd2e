"""Fields that are understood and cannot be honoured yet.

Each is refused when it asks for something: to drop it silently would change the answer. A value
that asks for nothing, as clients send it by default, passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mrs.server.errors import UnsupportedFieldError

AsksForNothing = Callable[[Any], bool]


def _one_of(*values: Any) -> AsksForNothing:
    # By type as well: in Python, 0 == False and 1 == True.
    return lambda value: any(type(value) is type(one) and value == one for one in values)


_EMPTY = _one_of([], {}, "")
_NOTHING = _one_of()
_OFF = _one_of(False)
_NO_TOOL = _one_of("none", "auto")

# OpenAI's, then those that mistral.rs adds to OpenAI's.
UNSUPPORTED_FIELDS: Mapping[str, AsksForNothing] = {
    "audio": _NOTHING,
    "function_call": _NO_TOOL,
    "functions": _EMPTY,
    "modalities": _one_of([], ["text"]),
    "moderation": _NOTHING,
    "prediction": _NOTHING,
    "reasoning_effort": _one_of("none"),
    "response_format": _one_of({"type": "text"}),
    "store": _OFF,
    "tool_choice": _NO_TOOL,
    "tools": _EMPTY,
    "verbosity": _one_of("medium"),
    "web_search_options": _NOTHING,
    "adapter": _NOTHING,
    "agent_permission": _NOTHING,
    "chat_template_kwargs": _EMPTY,
    "code_execution_permission": _NOTHING,
    "enable_shell": _OFF,
    "enable_thinking": _OFF,
    "files": _EMPTY,
    "grammar": _NOTHING,
    "session_id": _NOTHING,
    "truncate_sequence": _OFF,
}
UNSUPPORTED_MESSAGE_FIELDS: Mapping[str, AsksForNothing] = {
    "audio": _NOTHING,
    "function_call": _NOTHING,
    "tool_calls": _EMPTY,
}


def refuse_unsupported(
    fields: Mapping[str, Any], table: Mapping[str, AsksForNothing], path: str = ""
) -> None:
    """Check fields against a table of what cannot be honoured.

    Raises:
        UnsupportedFieldError: one of them asks for something.
    """
    for name in sorted(fields.keys() & table.keys()):
        value = fields[name]
        if value is not None and not table[name](value):
            param = path + name
            raise UnsupportedFieldError(
                f"'{param}' asks for something that this server does not support.",
                hint="Leave it out.",
                param=param,
            )
