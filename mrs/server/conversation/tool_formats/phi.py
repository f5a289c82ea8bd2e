"""Phi-4-mini: a JSON list between two tokens.

https://huggingface.co/microsoft/Phi-4-mini-instruct
"""

from __future__ import annotations

from mrs.server.conversation.tool_formats.marked_list import MarkedListFormat

_CALL = "<|tool_call|>"
_CALL_END = "<|/tool_call|>"


class PhiFormat(MarkedListFormat):
    """The list, and the token that ends it."""

    name = "phi"
    begins = (_CALL,)
    ends = (_CALL_END,)
    opening = _CALL + "["
    closing = "]" + _CALL_END

    @classmethod
    def writes(cls, template: str) -> bool:
        """Both tokens; its template shows the second one's counterpart for tools alone."""
        return _CALL_END in template or "<|/tool|>" in template
