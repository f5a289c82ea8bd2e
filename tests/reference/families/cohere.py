"""Command R (norms for each head), Command R7B (windows, and layers without a rotation)."""

from __future__ import annotations

from tests.reference.tiny_model import TinyModel, heads

_TIED = {"tie_word_embeddings": True}

CASES = (
    TinyModel("cohere-8-8", "cohere", {**heads(8, 8), **_TIED, "logit_scale": 0.25}),
    TinyModel("cohere-norms", "cohere", {**heads(6, 2), **_TIED, "use_qk_norm": True}, gguf=False),
    TinyModel(
        "cohere-bias", "cohere", {**heads(12, 4), "attention_bias": True, **_TIED}, gguf=False
    ),
    TinyModel(
        "cohere2",
        "cohere2",
        {**heads(8, 2), **_TIED, "num_hidden_layers": 5, "sliding_window": 12},
        tokens=60,
    ),
)
