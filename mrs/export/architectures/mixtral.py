"""Mixtral (arXiv:2401.04088): to GGUF a Llama with experts."""

from __future__ import annotations

from dataclasses import replace

from mrs.export.architectures.expert_config import EXPERT_ALIASES, EXPERT_KEYS
from mrs.export.architectures.family import HuggingFaceForm
from mrs.export.architectures.llama import LLAMA

EXPERT_TENSORS = {
    "block_sparse_moe.gate": "ffn_gate_inp",
    "block_sparse_moe.experts.*.w1": "ffn_gate_exps",
    "block_sparse_moe.experts.*.w2": "ffn_down_exps",
    "block_sparse_moe.experts.*.w3": "ffn_up_exps",
}
"""As Mixtral names them, and those that were made after it."""

MIXTRAL = replace(
    LLAMA,
    title="Mixtral",
    huggingface=HuggingFaceForm(
        model_types=("mixtral",),
        tensors=EXPERT_TENSORS,
        config=EXPERT_KEYS,
        aliases=EXPERT_ALIASES,
        defaults={
            "num_experts": 8,
            "num_experts_per_tok": 2,
            "num_key_value_heads": 8,
            "rms_norm_eps": 1e-5,
            "rope_theta": 1e6,
        },
    ),
)
