"""GLM-4 (arXiv:2406.12793) as ``glm``, which GGUF calls chatglm; its successors of 2025 as
``glm4``, whose attention and MLP results are normed too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mrs.export.architectures.family import Family, HuggingFaceForm
from mrs.export.architectures.spec import RopeLayout

_DEFAULTS: Mapping[str, Any] = {
    "num_key_value_heads": 2,
    "head_dim": 128,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1.5625e-07,
    "partial_rotary_factor": 0.5,
    "attention_bias": True,
}
_STATED = {"attention_bias": ("attn_q.bias", "attn_k.bias", "attn_v.bias")}

CHATGLM = Family(
    name="chatglm",
    title="GLM-4-9B (2024)",
    gguf_layout=RopeLayout.PAIRS,
    huggingface=HuggingFaceForm(
        model_types=("glm",), layout=RopeLayout.PAIRS, defaults=_DEFAULTS, stated=_STATED
    ),
)

GLM4 = Family(
    name="glm4",
    title="GLM-4-0414, GLM-Z1",
    post_norm=True,
    gguf_layout=RopeLayout.PAIRS,
    huggingface=HuggingFaceForm(
        model_types=("glm4",),
        layout=RopeLayout.PAIRS,
        tensors={
            "post_self_attn_layernorm": "post_attention_norm",
            "post_mlp_layernorm": "post_ffw_norm",
        },
        defaults=_DEFAULTS,
        stated=_STATED,
    ),
)
