"""Prompts for what stands between two texts ("fill in the middle")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mrs.errors import InvalidValueError

# Of each family: before the beginning, before the end, before the middle. By the model cards of
# Qwen2.5-Coder, CodeGemma, StarCoder, SantaCoder, DeepSeek-Coder, Code Llama and Granite.
_FAMILIES = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
    ("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"),
    ("▁<PRE>", "▁<SUF>", "▁<MID>"),
)


@dataclass(frozen=True)
class InfillTokens:
    """The control tokens that a model was taught for it.

    Attributes:
        prefix: comes before the text that the middle follows.
        suffix: comes before the text that follows the middle.
        middle: comes before the middle.
    """

    prefix: int
    suffix: int
    middle: int


def infill_tokens(special_tokens: Mapping[str, int]) -> InfillTokens:
    """Find them among the control tokens of a vocabulary.

    Raises:
        InvalidValueError: the model has none.
    """
    for family in _FAMILIES:
        if all(token in special_tokens for token in family):
            return InfillTokens(*(special_tokens[token] for token in family))
    raise InvalidValueError(
        "This model was not taught to fill in a middle: its vocabulary has no tokens for it.",
        hint="Leave 'suffix' out, or use a model for code.",
        param="suffix",
    )
