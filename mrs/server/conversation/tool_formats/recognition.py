"""Which format a model writes its calls in, by the text of its chat template."""

from __future__ import annotations

from mrs.errors import UsageError
from mrs.server.conversation.tool_formats.bare_json import BareJsonFormat
from mrs.server.conversation.tool_formats.command_r import CommandActionFormat, CommandRFormat
from mrs.server.conversation.tool_formats.deepseek import DeepSeekFencedFormat, DeepSeekFormat
from mrs.server.conversation.tool_formats.gemma import (
    FunctionGemmaFormat,
    GemmaCodeFormat,
    GemmaFormat,
)
from mrs.server.conversation.tool_formats.glm import GlmFormat, GlmLineFormat
from mrs.server.conversation.tool_formats.granite import GraniteFormat
from mrs.server.conversation.tool_formats.harmony import HarmonyFormat
from mrs.server.conversation.tool_formats.hermes import HermesFormat
from mrs.server.conversation.tool_formats.liquid import LiquidFormat
from mrs.server.conversation.tool_formats.llama import LlamaFormat
from mrs.server.conversation.tool_formats.mistral import MistralFormat, MistralNameFormat
from mrs.server.conversation.tool_formats.phi import PhiFormat
from mrs.server.conversation.tool_formats.pythonic import PythonicFormat
from mrs.server.conversation.tool_formats.qwen_coder import QwenCoderFormat, SeedFormat
from mrs.server.conversation.tool_formats.tool_format import ToolFormat

FORMATS: tuple[type[ToolFormat], ...] = (
    HarmonyFormat,
    GemmaFormat,
    FunctionGemmaFormat,
    SeedFormat,
    QwenCoderFormat,
    GlmFormat,
    HermesFormat,
    MistralNameFormat,
    MistralFormat,
    DeepSeekFencedFormat,
    DeepSeekFormat,
    LiquidFormat,
    PhiFormat,
    GraniteFormat,
    CommandActionFormat,
    CommandRFormat,
    PythonicFormat,
    LlamaFormat,
    GemmaCodeFormat,
    GlmLineFormat,
    BareJsonFormat,
)
"""In the order in which they are recognized: special ones first."""

FALLBACK = HermesFormat
"""What a model is told to write whose template says nothing of calls."""


def recognized_format(template: str) -> ToolFormat | None:
    """The format whose marks are in a chat template, or None."""
    for known in FORMATS:
        if known.writes(template):
            return known()
    return None


def format_named(name: str) -> ToolFormat:
    """The format of this name.

    Raises:
        UsageError: there is none.
    """
    for known in FORMATS:
        if known.name == name:
            return known()
    names = ", ".join(known.name for known in FORMATS)
    raise UsageError(f"There is no tool format {name!r}.", hint=f"There are: {names}.")
