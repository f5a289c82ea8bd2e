"""Granite 3: ``<|tool_call|>`` and a JSON list.

https://www.ibm.com/granite/docs/models/granite
"""

from __future__ import annotations

from mrs.server.conversation.tool_formats.marked_list import MarkedListFormat

_CALL = "<|tool_call|>"


class GraniteFormat(MarkedListFormat):
    """The list up to the answer's end."""

    name = "granite"
    begins = (_CALL,)
    opening = _CALL + "["
    closing = "]"
