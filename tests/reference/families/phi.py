"""Phi 2 (partial rotation, norms of queries and keys), Phi 3 and 4 (LongRoPE on both sides)."""

from __future__ import annotations

from tests.reference.tiny_model import TinyModel, heads

_PARTIAL = {"partial_rotary_factor": 0.5}
# As long as there are pairs in a head of 16, and in 12 rotated of 16.
_FACTORS = {
    "rope_type": "longrope",
    "short_factor": [1.0 + pair / 8 for pair in range(8)],
    "long_factor": [2.0 + pair for pair in range(8)],
}
_LONG = {"rope_parameters": _FACTORS, "original_max_position_embeddings": 32}
_PHI4 = {
    "rope_type": "longrope",
    "short_factor": [1.0 + pair / 8 for pair in range(12)],
    "long_factor": [2.0 + pair for pair in range(12)],
    "partial_rotary_factor": 0.75,
}

CASES = (
    TinyModel("phi-8-8", "phi", {**heads(8, 8), **_PARTIAL}),
    TinyModel("phi-6-2", "phi", {**heads(6, 2, 32), **_PARTIAL}),
    # 24 of 48 dimensions: no multiple of what the operator turns.
    TinyModel("phi-odd", "phi", {**heads(4, 2, 48), **_PARTIAL}),
    TinyModel(
        "phi-norms", "phi", {**heads(4, 2, 48), **_PARTIAL, "qk_layernorm": True}, gguf=False
    ),
    TinyModel("phi3", "phi3", heads(8, 8)),
    TinyModel("phi3-12-4", "phi3", {**heads(12, 4), "tie_word_embeddings": True}),
    TinyModel("phi3-window", "phi3", {"sliding_window": 12}),
    TinyModel("phi3-long", "phi3", _LONG, tokens=60),
    TinyModel("phi3-short", "phi3", _LONG, tokens=30, context=32),
    TinyModel(
        "phi4",
        "phi3",
        {
            **heads(4, 2, 32),
            "rope_parameters": _PHI4,
            "original_max_position_embeddings": 32,
            "tie_word_embeddings": True,
        },
        tokens=60,
    ),
)
