"""Qwen 2 (biases), Qwen 3 (norms of queries and keys)."""

from __future__ import annotations

from tests.reference.tiny_model import TinyModel, heads

CASES = (
    TinyModel("qwen2", "qwen2", {"tie_word_embeddings": True}),
    TinyModel("qwen2-12-4", "qwen2", heads(12, 4)),
    TinyModel(
        "qwen2-window",
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 12, "max_window_layers": 1},
        gguf=False,
    ),
    TinyModel("qwen3-8-1", "qwen3", {**heads(8, 1), "head_dim": 32}),
    TinyModel("qwen3-6-2", "qwen3", {**heads(6, 2), "head_dim": 16, "tie_word_embeddings": True}),
)
