"""ERNIE 4.5: neighbours are paired."""

from __future__ import annotations

from tests.reference.tiny_model import TinyModel, heads

CASES = (
    TinyModel("ernie4_5-8-8", "ernie4_5", {**heads(8, 8), "head_dim": 16}),
    TinyModel(
        "ernie4_5-8-1", "ernie4_5", {**heads(8, 1), "head_dim": 32, "tie_word_embeddings": True}
    ),
    TinyModel("ernie4_5-bias", "ernie4_5", {"head_dim": 16, "use_bias": True}, gguf=False),
)
