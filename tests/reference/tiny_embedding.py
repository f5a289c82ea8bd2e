"""Tiny random embedding models, as the folders that sentence-transformers saves.

As in `tests.reference.tiny_model`, a case is a configuration, and the weights follow from the
names of the tensors, whose shapes are kept beside the reference.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parents[1] / "data" / "reference" / "embeddings"
VOCABULARY = 96

Array = NDArray[np.float32]
_MODES = ("cls_token", "mean_tokens", "max_tokens", "lasttoken")


@dataclass(frozen=True)
class TinyDense:
    """A linear layer behind the pooling."""

    inputs: int
    outputs: int
    bias: bool = False
    activation: str = "torch.nn.modules.linear.Identity"


@dataclass(frozen=True)
class TinyEmbedding:
    """A variation of an embedding model.

    Attributes:
        name: of the variation.
        model_type: in transformers' words.
        config: its configuration.
        pooling: in the words of sentence-transformers' files.
        dense: linear layers.
        normalize: whether vectors are normalised.
        lengths: tokens of the texts.
        gguf: architecture of its GGUF form; None if there is none.
    """

    name: str
    model_type: str
    config: Mapping[str, Any]
    pooling: str = "mean_tokens"
    dense: tuple[TinyDense, ...] = ()
    normalize: bool = True
    lengths: tuple[int, ...] = (1, 5, 17, 40)
    gguf: str | None = None

    def texts(self) -> list[list[int]]:
        """Token ids of each text."""
        rng = np.random.default_rng(11)
        return [rng.integers(3, VOCABULARY, length).tolist() for length in self.lengths]

    def write(self, folder: Path, config: dict[str, Any], shapes: dict[str, list[int]]) -> Path:
        """Write the folder of a model whose tensors have these shapes."""
        from safetensors.numpy import save_file

        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config))
        weights = {name: self.weight(name, tuple(shape)) for name, shape in shapes.items()}
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        modules = [_module("", "Transformer"), _module("1_Pooling", "Pooling")]
        _write_json(folder / "1_Pooling", self._pooling_config())
        for index, dense in enumerate(self.dense, 2):
            modules.append(_module(f"{index}_Dense", "Dense"))
            self._write_dense(folder / f"{index}_Dense", dense)
        if self.normalize:
            modules.append(_module(f"{len(modules)}_Normalize", "Normalize"))
        numbered = [{"idx": i, "name": str(i), **module} for i, module in enumerate(modules)]
        (folder / "modules.json").write_text(json.dumps(numbered))
        return folder

    def _pooling_config(self) -> dict[str, Any]:
        modes = {f"pooling_mode_{mode}": mode == self.pooling for mode in _MODES}
        width = self.config.get("hidden_size", self.config.get("dim"))
        return {"word_embedding_dimension": width, **modes}

    def _write_dense(self, folder: Path, dense: TinyDense) -> None:
        from safetensors.numpy import save_file

        config = {
            "in_features": dense.inputs,
            "out_features": dense.outputs,
            "bias": dense.bias,
            "activation_function": dense.activation,
        }
        _write_json(folder, config)
        shapes = {"linear.weight": (dense.outputs, dense.inputs)}
        if dense.bias:
            shapes["linear.bias"] = (dense.outputs,)  # type: ignore[assignment]
        weights = {name: self.weight(folder.name + name, shape) for name, shape in shapes.items()}
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    def weight(self, name: str, shape: tuple[int, ...]) -> Array:
        """What a tensor holds, which follows from its name."""
        rng = np.random.default_rng(zlib.crc32(f"{self.name} {name}".encode()))
        if "norm" in name.lower():
            low, high = (-0.5, 0.5) if name.endswith("bias") else (0.5, 1.5)
            return rng.uniform(low, high, size=shape).astype(np.float32)
        return rng.normal(scale=0.12, size=shape).astype(np.float32)


@dataclass(frozen=True)
class EmbeddingReference:
    """What sentence-transformers makes of a tiny model.

    Attributes:
        config: ``config.json`` as transformers writes it.
        shapes: of the tensors in ``model.safetensors``.
        embeddings: float32 ``[texts, size]``, computed in float64.
    """

    config: dict[str, Any]
    shapes: dict[str, list[int]]
    embeddings: Array

    @staticmethod
    def load(model: TinyEmbedding) -> EmbeddingReference:
        """Read a reference from the repository."""
        with np.load(FOLDER / f"{model.name}.npz") as stored:
            facts = json.loads(str(stored["facts"]))
            return EmbeddingReference(facts["config"], facts["shapes"], stored["embeddings"])

    def save(self, model: TinyEmbedding) -> None:
        """Write a reference into the repository."""
        FOLDER.mkdir(parents=True, exist_ok=True)
        facts = json.dumps({"config": self.config, "shapes": self.shapes}, sort_keys=True)
        path = FOLDER / f"{model.name}.npz"
        np.savez_compressed(path, facts=facts, embeddings=self.embeddings)


def write_reference_model(model: TinyEmbedding, folder: Path) -> Path:
    """Write the folder that a stored reference was computed with."""
    reference = EmbeddingReference.load(model)
    return model.write(folder, reference.config, reference.shapes)


def _module(path: str, kind: str) -> dict[str, str]:
    return {"path": path, "type": f"sentence_transformers.models.{kind}"}


def _write_json(folder: Path, value: dict[str, Any]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(value))
