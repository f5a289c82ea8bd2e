"""How models write calls: a small file for each format, and which one is whose."""

from mrs.server.conversation.tool_formats.recognition import (
    FALLBACK,
    FORMATS,
    format_named,
    recognized_format,
)
from mrs.server.conversation.tool_formats.tool_format import Call, ToolFormat

__all__ = [
    "FALLBACK",
    "FORMATS",
    "Call",
    "ToolFormat",
    "format_named",
    "recognized_format",
]
