"""Gemma 1 to 3: offset norms, windows, soft caps, two rotations, scaled embeddings."""

from __future__ import annotations

from tests.reference.tiny_model import TinyModel, heads

_TIED = {"tie_word_embeddings": True}
_TWO = {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 12, **_TIED}
_THREE = {**_TWO, "num_hidden_layers": 7}
_SIZE_32 = {"head_dim": 32, "query_pre_attn_scalar": 32}
_ROPES = {
    "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1_000_000.0},
}

CASES = (
    TinyModel("gemma-8-8", "gemma", {**heads(8, 8), "head_dim": 16, **_TIED}),
    TinyModel("gemma-8-1", "gemma", {**heads(8, 1), "head_dim": 32, **_TIED}),
    TinyModel("gemma-bias", "gemma", {"attention_bias": True, "head_dim": 16, **_TIED}, gguf=False),
    TinyModel("gemma-untied", "gemma", {"head_dim": 16}, gguf=False),
    TinyModel("gemma2-window", "gemma2", {**_TWO, "num_hidden_layers": 3}, tokens=50),
    TinyModel(
        "gemma2-caps",
        "gemma2",
        # Caps that bend the scores and logits of so small a model.
        {**_TWO, "attn_logit_softcapping": 1.5, "final_logit_softcapping": 2.0},
        scale=0.2,
    ),
    TinyModel("gemma2-6-2", "gemma2", {**_TWO, **heads(6, 2)}),
    TinyModel("gemma2-scale", "gemma2", {**_TWO, "query_pre_attn_scalar": 48}, gguf=False),
    TinyModel(
        "gemma2-plain",
        "gemma2",
        {**_TWO, "attn_logit_softcapping": None, "final_logit_softcapping": None},
        gguf=False,
    ),
    TinyModel("gemma3-window", "gemma3_text", _THREE, tokens=60),
    TinyModel("gemma3-8-1", "gemma3_text", {**_THREE, **heads(8, 1), **_SIZE_32}),
    TinyModel("gemma3-linear", "gemma3_text", {**_THREE, "rope_parameters": _ROPES}, tokens=60),
    TinyModel("gemma3-scale", "gemma3_text", {**_THREE, "query_pre_attn_scalar": 48}, gguf=False),
    TinyModel("gemma3-untied", "gemma3_text", {**_THREE, "tie_word_embeddings": False}, scale=0.05),
)
