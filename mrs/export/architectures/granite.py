"""Granite 3, dense and with experts: a Llama with factors on embeddings, scores, residuals and
logits (muP)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mrs.export.architectures.expert_config import EXPERT_ALIASES, EXPERT_KEYS
from mrs.export.architectures.family import Family, HuggingFaceForm
from mrs.export.architectures.spec import RopeLayout
from mrs.export.checkpoints.json_section import JsonSection

GRANITE = Family(
    name="granite",
    title="Granite 3",
    gguf_layout=RopeLayout.PAIRS,
    divides_logits=True,
    huggingface=HuggingFaceForm(
        model_types=("granite",),
        stated={
            "attention_bias": ("attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.bias"),
            "mlp_bias": ("ffn_gate.bias", "ffn_up.bias", "ffn_down.bias"),
        },
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


def _with_experts(config: JsonSection) -> Mapping[str, Any]:
    return {"moe_intermediate_size": config.size("intermediate_size")}


_DENSE = GRANITE.huggingface
assert _DENSE is not None

GRANITE_MOE = replace(
    GRANITE,
    name="granitemoe",
    title="Granite 3 with experts",
    normalizes_experts=True,
    huggingface=replace(
        _DENSE,
        model_types=("granitemoe", "granitemoeshared"),
        tensors={
            "block_sparse_moe.router.layer": "ffn_gate_inp",
            "block_sparse_moe.input_linear": "ffn_gate_up_exps",
            "block_sparse_moe.output_linear": "ffn_down_exps",
            "shared_mlp.input_linear": "ffn_up_shexp",
            "shared_mlp.output_linear": "ffn_down_shexp",
        },
        config={
            **_DENSE.config,
            **EXPERT_KEYS,
            "shared_intermediate_size": "expert_shared_feed_forward_length",
        },
        aliases=EXPERT_ALIASES,
        derived=_with_experts,
        defaults={**_DENSE.defaults, "num_experts": 8, "num_experts_per_tok": 2},
    ),
)
