"""A model's ``config.json`` and ``generation_config.json``, as transformers writes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from mrs.errors import CheckpointError
from mrs.export.checkpoints.json_section import JsonSection, read_json

CONFIG_FILE = "config.json"
GENERATION_CONFIG_FILE = "generation_config.json"
MAX_CONFIG_BYTES = 2_000_000
"""Real ones have a few kilobytes; long lists of layers that are not quantized, some hundred."""

_TEXT_SECTIONS = ("text_config", "llm_config", "language_config")


@dataclass(frozen=True)
class HfConfig(JsonSection):
    """The configuration of a model's text part, with typed getters.

    A multimodal model keeps that part in ``text_config``; what is not there is looked up in the
    outer object, where for instance ``tie_word_embeddings`` may be.

    Attributes:
        outer: the whole file; the same values if nothing is nested.
        generation: ``generation_config.json``; empty if there is none.
    """

    outer: JsonSection = field(kw_only=True)
    generation: JsonSection = field(kw_only=True)

    @property
    def model_type(self) -> str:
        """The family in transformers' words (``llama``, ``gemma3_text``), of the text part.

        Raises:
            CheckpointError: it is missing.
        """
        return self.text("model_type")

    @property
    def architectures(self) -> list[str]:
        """The classes that the whole model is made for (``LlamaForCausalLM``); may be empty."""
        return self.outer.optional_texts("architectures") or []

    @property
    def is_nested(self) -> bool:
        """Whether the text model is a part of a larger one."""
        return self.fallback is not None

    @property
    def quantization(self) -> JsonSection | None:
        """``quantization_config``: how the stored weights are quantized, None if they are not."""
        return self.optional_section("quantization_config")

    @property
    def wants_remote_code(self) -> bool:
        """Whether the model comes with Python code of its own, which mrs never runs."""
        return self.has("auto_map") or self.outer.has("auto_map")


def read_hf_config(folder: Path) -> HfConfig:
    """Read the configuration of a model's folder.

    Raises:
        SourceNotFoundError: there is no ``config.json``.
        CorruptCheckpointError: a file is too large, no JSON or no object.
        CheckpointError: a nested configuration is no object.
        StorageError: a file cannot be read.
    """
    outer = read_json(folder / CONFIG_FILE, MAX_CONFIG_BYTES)
    generation = JsonSection(GENERATION_CONFIG_FILE, {})
    if (folder / GENERATION_CONFIG_FILE).exists():
        generation = read_json(folder / GENERATION_CONFIG_FILE, MAX_CONFIG_BYTES)
    nested = _text_section(outer)
    if nested is None:
        return HfConfig(CONFIG_FILE, outer.values, outer=outer, generation=generation)
    return HfConfig(
        CONFIG_FILE, nested.values, nested.path, outer, outer=outer, generation=generation
    )


def _text_section(outer: JsonSection) -> JsonSection | None:
    for key in _TEXT_SECTIONS:
        nested = outer.optional_section(key)
        if nested is None:
            continue
        if not nested.values:
            raise CheckpointError(
                f"{CONFIG_FILE}: {key} is empty.", hint="Get the model's own config.json."
            )
        return nested
    return None
