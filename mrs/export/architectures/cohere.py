"""Command R and Aya (``cohere``), Command R7B and A (``cohere2``, arXiv:2504.00698): parallel
blocks over one layer norm, which has no bias. Three in four layers of the second have a window,
and only these a rotation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mrs.export.architectures.family import Family, HuggingFaceForm
from mrs.export.architectures.spec import NormKind, RopeLayout

_BIASES = ("attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.bias")
_DEFAULTS: Mapping[str, Any] = {
    "logit_scale": 0.0625,
    "max_position_embeddings": 8192,
    "layer_norm_eps": 1e-5,
    "attention_bias": False,
    "tie_word_embeddings": True,
}

COMMAND_R = Family(
    name="command-r",
    title="Command R, Aya",
    norm=NormKind.LAYER,
    parallel=True,
    shared_norm=True,
    gguf_layout=RopeLayout.PAIRS,
    huggingface=HuggingFaceForm(
        model_types=("cohere",),
        layout=RopeLayout.PAIRS,
        # The length of the training, where the usual key has a shorter one.
        config={"model_max_length": "context_length"},
        defaults={**_DEFAULTS, "rope_theta": 500000.0, "use_qk_norm": False},
        stated={
            "attention_bias": _BIASES,
            "use_qk_norm": ("attn_q_norm.weight", "attn_k_norm.weight"),
        },
    ),
)

COHERE2 = Family(
    name="cohere2",
    title="Command R7B, Command A",
    norm=NormKind.LAYER,
    parallel=True,
    shared_norm=True,
    gguf_layout=RopeLayout.PAIRS,
    full_attention_every=4,
    rope_in_windows_only=True,
    huggingface=HuggingFaceForm(
        model_types=("cohere2",),
        layout=RopeLayout.PAIRS,
        defaults={**_DEFAULTS, "sliding_window": 4096},
        stated={"attention_bias": _BIASES},
    ),
)
