"""Mixtral: few experts and many, one for a token and several."""

from __future__ import annotations

from tests.reference.tiny_model import TinyModel, heads

CASES = (
    TinyModel("mixtral", "mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    TinyModel(
        "mixtral-1-of-8",
        "mixtral",
        {"num_local_experts": 8, "num_experts_per_tok": 1, **heads(6, 2)},
    ),
    TinyModel(
        "mixtral-all-3",
        "mixtral",
        {"num_local_experts": 3, "num_experts_per_tok": 3, "tie_word_embeddings": True},
    ),
)
