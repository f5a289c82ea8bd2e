"""Tiny random models of any family, as Hugging Face folders.

A case is a configuration. What tensors a model with it has is known to transformers alone; the
generator asks it and keeps the shapes beside the logits. The weights follow from the names.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parents[1] / "data" / "reference" / "families"
VOCABULARY = 96

Array = NDArray[np.float32]


@dataclass(frozen=True)
class TinyModel:
    """A variation of a family that breaks exporters.

    Attributes:
        name: of the variation; starts with the family's.
        model_type: in transformers' words.
        config: its configuration, where it is not that of `BASE`.
        tokens: length of the prompt.
        context: positions of the artifact, where they are not the configuration's.
        gguf: whether a GGUF file of it can be tested too.
        scale: standard deviation of the matrices.
    """

    name: str
    model_type: str
    config: Mapping[str, Any] = field(default_factory=dict)
    tokens: int = 40
    context: int | None = None
    gguf: bool = True
    scale: float = 0.08

    def prompt(self) -> list[int]:
        """Token ids."""
        return np.random.default_rng(7).integers(3, VOCABULARY, self.tokens).tolist()

    def weights(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
        """Float32 weights for tensors of these shapes."""
        return {name: self._weight(name, shape) for name, shape in shapes.items()}

    def write(self, folder: Path) -> Path:
        """Write ``config.json`` and ``model.safetensors`` as the reference was computed with."""
        from safetensors.numpy import save_file

        reference = Reference.load(self)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(reference.config))
        save_file(self.weights(reference.shapes), folder / "model.safetensors")
        return folder

    def _weight(self, name: str, shape: tuple[int, ...]) -> Array:
        rng = np.random.default_rng(zlib.crc32(f"{self.name} {name}".encode()))
        if "norm" in name.lower() or ".ln_" in name:
            low, high = (-0.5, 0.5) if name.endswith("bias") else (0.5, 1.5)
            return rng.uniform(low, high, size=shape).astype(np.float32)
        return rng.normal(scale=self.scale, size=shape).astype(np.float32)


@dataclass(frozen=True)
class Reference:
    """What transformers makes of a tiny model.

    Attributes:
        config: ``config.json`` as transformers writes it.
        shapes: of the tensors in ``model.safetensors``.
        logits: float32 ``[tokens, VOCABULARY]``, computed in float64.
    """

    config: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]
    logits: Array

    @staticmethod
    def load(model: TinyModel) -> Reference:
        """Read a reference from the repository."""
        with np.load(FOLDER / f"{model.name}.npz") as stored:
            facts = json.loads(str(stored["facts"]))
            shapes = {name: tuple(shape) for name, shape in facts["shapes"].items()}
            return Reference(facts["config"], shapes, stored["logits"])

    def save(self, model: TinyModel) -> None:
        """Write a reference into the repository."""
        FOLDER.mkdir(parents=True, exist_ok=True)
        facts = json.dumps({"config": self.config, "shapes": self.shapes}, sort_keys=True)
        np.savez_compressed(FOLDER / f"{model.name}.npz", facts=facts, logits=self.logits)


BASE: Mapping[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
"""What most configurations share."""


def heads(query: int, key_value: int, size: int = 16) -> dict[str, Any]:
    """Configuration of a head ratio."""
    return {
        "num_attention_heads": query,
        "num_key_value_heads": key_value,
        "hidden_size": query * size,
    }
