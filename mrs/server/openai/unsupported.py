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

# What vLLM and llama.cpp call what says which tokens an answer may have.
CONSTRAINTS_OF_OTHERS: Mapping[str, AsksForNothing] = {
    "allowed_token_ids": _EMPTY,
    "bad_words": _EMPTY,
    "guided_grammar": _EMPTY,
}
# OpenAI's, those that mistral.rs adds to OpenAI's, those of vLLM and llama.cpp.
UNSUPPORTED_FIELDS: Mapping[str, AsksForNothing] = {
    "audio": _NOTHING,
    "modalities": _one_of([], ["text"]),
    "moderation": _NOTHING,
    "store": _OFF,
    "web_search_options": _NOTHING,
    "adapter": _NOTHING,
    "agent_permission": _NOTHING,
    "code_execution_permission": _NOTHING,
    "enable_shell": _OFF,
    "files": _EMPTY,
    "max_tool_rounds": _NOTHING,
    "session_id": _NOTHING,
    "chat_template": _NOTHING,
    "prompt_embeds": _EMPTY,
    **CONSTRAINTS_OF_OTHERS,
}
UNSUPPORTED_MESSAGE_FIELDS: Mapping[str, AsksForNothing] = {
    "audio": _NOTHING,
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
