"""How models mark what they think, as apart from what they say."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReasoningFormat:
    """A pair of marks.

    Attributes:
        name: as the server's option and the documentation call it.
        opens: what begins the reasoning, where the prompt has not begun it.
        closes: what ends it.
        text_marks: what may stand around the text, and is no part of it.
    """

    name: str
    opens: str
    closes: str
    text_marks: tuple[str, ...] = ()


THINK = ReasoningFormat("think", "<think>", "</think>")
FORMATS: tuple[ReasoningFormat, ...] = (
    ReasoningFormat("seed", "<seed:think>", "</seed:think>"),
    ReasoningFormat("mistral", "[THINK]", "[/THINK]"),
    ReasoningFormat("gemma", "<|channel>thought\n", "<channel|>"),
    ReasoningFormat("command", "<|START_THINKING|>", "<|END_THINKING|>"),
    ReasoningFormat("inner", "<|inner_prefix|>", "<|inner_suffix|>"),
    ReasoningFormat("granite", "<think>", "</think>", ("<response>", "</response>")),
    THINK,
)
"""In the order in which they are looked for."""


def reasoning_format(template: str) -> ReasoningFormat | None:
    """The marks that a chat template knows.

    Some templates show the closing one alone, where they cut the reasoning off earlier answers.
    """
    for known in FORMATS:
        is_known = known.closes in template or known.opens in template
        if is_known and all(mark in template for mark in known.text_marks):
            return known
    return None
