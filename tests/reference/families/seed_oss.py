"""Seed-OSS: biases of queries, keys and values."""

from __future__ import annotations

from tests.reference.tiny_model import TinyModel, heads

CASES = (
    TinyModel("seed-oss", "seed_oss", {"head_dim": 32}),
    TinyModel("seed-oss-8-1", "seed_oss", {**heads(8, 1), "head_dim": 16}),
    TinyModel(
        "seed-oss-out-bias",
        "seed_oss",
        {"head_dim": 16, "attention_out_bias": True, "tie_word_embeddings": True},
        gguf=False,
    ),
)
