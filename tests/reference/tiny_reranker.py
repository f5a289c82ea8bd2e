"""Tiny random rerankers, as the folders that transformers saves.

As in `tests.reference.tiny_embedding`, the weights follow from the names of the tensors, whose
shapes are kept beside the reference.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.reference.tiny_embedding import VOCABULARY, Array, TinyEmbedding

FOLDER = Path(__file__).parents[1] / "data" / "reference" / "rerankers"

_BERT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 48,
    "type_vocab_size": 2,
    "pad_token_id": 0,
    "num_labels": 1,
}
_ROBERTA = {
    **_BERT,
    "max_position_embeddings": 50,
    "type_vocab_size": 1,
    "pad_token_id": 1,
    "layer_norm_eps": 1e-5,
}


@dataclass(frozen=True)
class TinyReranker:
    """A variation of a reranker.

    Attributes:
        name: of the variation.
        model_type: in transformers' words.
        config: its configuration.
        pairs: tokens of the first and of the second text of each pair.
    """

    name: str
    model_type: str
    config: Mapping[str, Any]
    pairs: tuple[tuple[int, int], ...] = field(default=((2, 2), (5, 17), (17, 5), (3, 40)))

    def rows(self) -> list[tuple[list[int], int]]:
        """Token ids of each pair, and where its second text starts."""
        rng = np.random.default_rng(13)
        return [
            (rng.integers(3, VOCABULARY, first + second).tolist(), first)
            for first, second in self.pairs
        ]

    def write(self, folder: Path, config: dict[str, Any], shapes: dict[str, list[int]]) -> Path:
        """Write the folder of a model whose tensors have these shapes."""
        from safetensors.numpy import save_file

        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config))
        made = TinyEmbedding(self.name, self.model_type, self.config)
        weights = {name: made.weight(name, tuple(shape)) for name, shape in shapes.items()}
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        return folder


CASES = (
    TinyReranker("bert", "bert", _BERT),
    TinyReranker("xlm-roberta", "xlm-roberta", _ROBERTA),
    TinyReranker(
        "xlm-roberta-long",
        "xlm-roberta",
        {**_ROBERTA, "max_position_embeddings": 1100},
        pairs=((2, 2), (20, 300)),
    ),
    TinyReranker("roberta", "roberta", _ROBERTA),
    TinyReranker(
        "distilbert",
        "distilbert",
        {
            "vocab_size": VOCABULARY,
            "max_position_embeddings": 48,
            "dim": 64,
            "n_layers": 2,
            "n_heads": 4,
            "hidden_dim": 96,
            "pad_token_id": 0,
            "num_labels": 1,
        },
    ),
    TinyReranker("mpnet", "mpnet", _ROBERTA),
)


@dataclass(frozen=True)
class RerankerReference:
    """What transformers makes of a tiny model.

    Attributes:
        config: ``config.json`` as transformers writes it.
        shapes: of the tensors in ``model.safetensors``.
        logits: float32 ``[pairs]``, computed in float64.
    """

    config: dict[str, Any]
    shapes: dict[str, list[int]]
    logits: Array

    @staticmethod
    def load(model: TinyReranker) -> RerankerReference:
        """Read a reference from the repository."""
        with np.load(FOLDER / f"{model.name}.npz") as stored:
            facts = json.loads(str(stored["facts"]))
            return RerankerReference(facts["config"], facts["shapes"], stored["logits"])

    def save(self, model: TinyReranker) -> None:
        """Write a reference into the repository."""
        FOLDER.mkdir(parents=True, exist_ok=True)
        facts = json.dumps({"config": self.config, "shapes": self.shapes}, sort_keys=True)
        np.savez_compressed(FOLDER / f"{model.name}.npz", facts=facts, logits=self.logits)


def write_reference_reranker(model: TinyReranker, folder: Path) -> Path:
    """Write the folder that a stored reference was computed with."""
    reference = RerankerReference.load(model)
    return model.write(folder, reference.config, reference.shapes)
