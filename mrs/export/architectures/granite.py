"""Granite 3 (dense): a Llama with factors on embeddings, scores, residuals and logits (muP)."""

from __future__ import annotations

from mrs.export.architectures.family import Family, HuggingFaceForm
from mrs.export.architectures.spec import RopeLayout

GRANITE = Family(
    name="granite",
    title="Granite 3",
    gguf_layout=RopeLayout.PAIRS,
    divides_logits=True,
    huggingface=HuggingFaceForm(
        model_types=("granite",),
        config={
            "embedding_multiplier": "embedding_scale",
            "residual_multiplier": "residual_scale",
            "attention_multiplier": "attention.scale",
            "logits_scaling": "logit_scale",
        },
        defaults={
            "max_position_embeddings": 2048,
            "rms_norm_eps": 1e-6,
            # Not the root of the head size: that is how transformers reads a config without it.
            "attention_multiplier": 1.0,
            "logits_scaling": 1.0,
        },
    ),
)
