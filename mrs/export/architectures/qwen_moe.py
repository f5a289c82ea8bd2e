"""Qwen 1.5 and 2 with experts (arXiv:2407.10671), Qwen 3 with experts (arXiv:2505.09388)."""

from __future__ import annotations

from mrs.export.architectures.expert_config import EXPERT_ALIASES, EXPERT_KEYS, every_few_layers
from mrs.export.architectures.family import Family, HuggingFaceForm

QWEN2MOE = Family(
    name="qwen2moe",
    title="Qwen 1.5 and 2 with experts",
    shared_gate=True,
    huggingface=HuggingFaceForm(
        model_types=("qwen2_moe",),
        config=EXPERT_KEYS,
        aliases=EXPERT_ALIASES,
        derived=every_few_layers,
        only={"use_sliding_window": False},
        stated={"qkv_bias": ("attn_q.bias", "attn_k.bias", "attn_v.bias")},
        defaults={
            "moe_intermediate_size": 1408,
            "shared_expert_intermediate_size": 5632,
            "num_experts_per_tok": 4,
            "num_experts": 60,
            "norm_topk_prob": False,
            "qkv_bias": True,
        },
    ),
)

QWEN3MOE = Family(
    name="qwen3moe",
    title="Qwen 3 with experts",
    query_key_norm=True,
    # As llama.cpp has it; config.json says it of each model.
    normalizes_experts=True,
    huggingface=HuggingFaceForm(
        model_types=("qwen3_moe",),
        config=EXPERT_KEYS,
        aliases=EXPERT_ALIASES,
        derived=every_few_layers,
        only={"use_sliding_window": False},
        defaults={
            "moe_intermediate_size": 768,
            "num_experts_per_tok": 8,
            "num_experts": 128,
            "norm_topk_prob": False,
        },
    ),
)
