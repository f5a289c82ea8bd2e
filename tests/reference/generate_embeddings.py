"""Regenerate tests/data/reference/embeddings/*.npz. Never run by the tests.

    pip install torch transformers sentence-transformers safetensors
    python -m tests.reference.generate_embeddings [name or start of names ...]
    python -m tests.reference.generate_embeddings --real path/to/all-minilm-l6-v2

Everything is computed by sentence-transformers, in float64 and one text at a time, so that neither
padding nor rounding is in the reference.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoConfig, AutoModel

from tests.reference.embedding_cases import CASES
from tests.reference.embedding_texts import TEXTS
from tests.reference.tiny_embedding import (
    FOLDER,
    VOCABULARY,
    Array,
    EmbeddingReference,
    TinyEmbedding,
)


def reference(case: TinyEmbedding, folder: Path) -> EmbeddingReference:
    AutoModel.from_config(AutoConfig.for_model(case.model_type, **case.config)).save_pretrained(
        folder
    )
    with safe_open(folder / "model.safetensors", "numpy") as file:
        shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    config = json.loads((folder / "config.json").read_text())
    case.write(folder, config, shapes)
    _write_tokenizer(folder)
    model = load(folder)
    vectors = [embed(model, {"input_ids": torch.tensor([ids])}) for ids in case.texts()]
    return EmbeddingReference(config, shapes, np.concatenate(vectors))


def load(folder: Path) -> SentenceTransformer:
    arguments = {"attn_implementation": "eager", "dtype": torch.float64}
    model = SentenceTransformer(str(folder), device="cpu", model_kwargs=arguments)
    return model.double().eval()


def embed(model: SentenceTransformer, features: dict[str, Any]) -> Array:
    features = {**features, "attention_mask": torch.ones_like(features["input_ids"])}
    with torch.no_grad():
        vectors: Array = model(features)["sentence_embedding"].float().numpy()
    return vectors


def real(folder: Path) -> None:
    """The texts' vectors, and what their tokens are."""
    model = load(folder)
    ids = [model.tokenize([text])["input_ids"] for text in TEXTS]
    vectors = [embed(model, {"input_ids": row}) for row in ids]
    tokens = {f"tokens_{index}": row[0].numpy() for index, row in enumerate(ids)}
    np.savez_compressed(
        FOLDER / "all-minilm-l6-v2.npz", embeddings=np.concatenate(vectors), **tokens
    )


def _write_tokenizer(folder: Path) -> None:
    """sentence-transformers loads no model without; it is not used."""
    vocabulary = {f"t{index}": index for index in range(VOCABULARY)}
    Tokenizer(WordLevel(vocabulary, unk_token="t0")).save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "t0"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def main(names: list[str]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    if names[:1] == ["--real"]:
        real(Path(names[1]))
        return
    for case in CASES:
        if names and not any(case.name.startswith(name) for name in names):
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = reference(case, Path(folder))
        found.save(case)
        print(f"{case.name:28} {found.embeddings.shape} {np.abs(found.embeddings).max():8.3f}")


if __name__ == "__main__":
    main(sys.argv[1:])
