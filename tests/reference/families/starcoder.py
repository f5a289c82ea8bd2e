"""StarCoder 2: biases, a window."""

from __future__ import annotations

from tests.reference.tiny_model import TinyModel, heads

CASES = (
    TinyModel("starcoder2", "starcoder2", {**heads(8, 1), "tie_word_embeddings": True}),
    TinyModel("starcoder2-untied", "starcoder2", {**heads(12, 4)}),
    # llama.cpp has neither.
    TinyModel("starcoder2-plain", "starcoder2", {"use_bias": False}, gguf=False),
    TinyModel("starcoder2-window", "starcoder2", {"sliding_window": 12}, gguf=False),
)
