"""Granite: factors on embeddings, scores, residuals and logits."""

from __future__ import annotations

from tests.reference.tiny_model import TinyModel, heads

_FACTORS: dict[str, float] = {
    "embedding_multiplier": 12.0,
    "residual_multiplier": 0.22,
    "attention_multiplier": 0.11,
    "logits_scaling": 3.0,
}

_EXPERTS = {"num_local_experts": 6, "num_experts_per_tok": 2}

CASES = (
    TinyModel("granite-8-8", "granite", {**_FACTORS, **heads(8, 8), "tie_word_embeddings": True}),
    TinyModel("granite-8-1", "granite", {**_FACTORS, **heads(8, 1)}, scale=0.2),
    TinyModel(
        "granite-6-2", "granite", {**_FACTORS, **heads(6, 2), "num_hidden_layers": 3}, scale=0.2
    ),
    TinyModel("granite-bias", "granite", {**_FACTORS, "attention_bias": True, "mlp_bias": True}),
    # All factors at their default, 1.
    TinyModel("granite-plain", "granite", scale=0.04),
    TinyModel("granitemoe", "granitemoe", {**_FACTORS, **_EXPERTS, **heads(6, 2)}, scale=0.15),
    TinyModel(
        "granitemoe-shared",
        "granitemoeshared",
        {**_FACTORS, **_EXPERTS, "shared_intermediate_size": 48, "tie_word_embeddings": True},
        scale=0.15,
    ),
)
