"""EXAONE 4: with and without windows."""

from __future__ import annotations

from tests.reference.tiny_model import TinyModel, heads

_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
    "rope_theta": 10_000.0,
}
_WINDOWS = {"num_hidden_layers": 5, "sliding_window": 12, "sliding_window_pattern": 4}
_MANY = {"num_hidden_layers": 64, "intermediate_size": 32}
_NONE = {
    "sliding_window": None,
    "layer_types": ["full_attention"] * 2,
    "tie_word_embeddings": True,
}

CASES = (
    TinyModel("exaone4", "exaone4", {**_NONE, "rope_parameters": _LLAMA3}, tokens=60),
    TinyModel("exaone4-8-1", "exaone4", {**_NONE, **heads(8, 1)}),
    TinyModel(
        "exaone4-window", "exaone4", {**_WINDOWS, "rope_parameters": _LLAMA3}, tokens=60, gguf=False
    ),
    TinyModel("exaone4-6-2", "exaone4", {**_WINDOWS, **heads(6, 2)}, gguf=False),
    # llama.cpp has windows in the size with so many layers only.
    TinyModel("exaone4-64", "exaone4", {**_WINDOWS, **heads(2, 1), **_MANY}, scale=0.12),
)
