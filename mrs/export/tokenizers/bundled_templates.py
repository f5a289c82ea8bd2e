"""Chat templates for models that come without one.

Each is for a format with tokens of its own, by which it is recognized; those without (Llama 2,
Vicuna, Alpaca) are only taken by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

import mrs.export.tokenizers


@dataclass(frozen=True)
class BundledTemplate:
    """A template of mrs' own.

    Attributes:
        name: what it is called.
        tokens: a vocabulary that has all of these was made for the format; empty if there is
            no telling.
        architectures: the families that use the format with these tokens; empty for any.
        ends: what ends a turn of the assistant, besides the vocabulary's own end.
    """

    name: str
    tokens: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The Jinja source."""
        folder = files(mrs.export.tokenizers) / "templates"
        return (folder / f"{self.name}.jinja").read_text(encoding="utf-8")


_ALL = (
    BundledTemplate(
        "harmony",
        ("<|start|>", "<|message|>", "<|channel|>", "<|return|>"),
        ends=("<|return|>", "<|call|>"),
    ),
    BundledTemplate(
        "llama3", ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"), ends=("<|eot_id|>",)
    ),
    BundledTemplate(
        "gemma",
        ("<start_of_turn>", "<end_of_turn>"),
        ("gemma", "gemma2", "gemma3"),
        ends=("<end_of_turn>",),
    ),
    BundledTemplate("granite", ("<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>")),
    BundledTemplate(
        "command-r",
        ("<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>"),
        ends=("<|END_OF_TURN_TOKEN|>",),
    ),
    BundledTemplate("deepseek", ("<｜User｜>", "<｜Assistant｜>")),
    BundledTemplate(
        "glm4",
        ("[gMASK]", "<sop>", "<|user|>", "<|assistant|>"),
        ends=("<|user|>", "<|observation|>"),
    ),
    BundledTemplate(
        "phi3", ("<|user|>", "<|assistant|>", "<|end|>"), ("phi3", "phimoe"), ends=("<|end|>",)
    ),
    BundledTemplate("chatml", ("<|im_start|>", "<|im_end|>"), ends=("<|im_end|>",)),
    BundledTemplate("mistral", ("[INST]", "[/INST]")),
    BundledTemplate("zephyr", ("<|user|>", "<|assistant|>"), ("llama", "stablelm")),
    BundledTemplate("llama2"),
    BundledTemplate("vicuna"),
    BundledTemplate("alpaca"),
)

BUNDLED_TEMPLATES = {template.name: template for template in _ALL}
"""All of them by name."""


def recognized_template(
    has_token: Callable[[str], bool], architecture: str
) -> BundledTemplate | None:
    """The template whose tokens the vocabulary has, or None.

    Args:
        has_token: whether a text is a token.
        architecture: the model's family in GGUF's words.
    """
    for template in _ALL:
        if template.architectures and architecture not in template.architectures:
            continue
        if template.tokens and all(map(has_token, template.tokens)):
            return template
    return None
