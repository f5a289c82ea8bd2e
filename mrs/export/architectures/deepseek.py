"""DeepSeek-V2 (arXiv:2405.04434), V3 (arXiv:2412.19437) and R1: latent attention, many experts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mrs.errors import UnsupportedArchitectureError
from mrs.export.architectures.expert_config import EXPERT_ALIASES, EXPERT_KEYS
from mrs.export.architectures.family import Family, HuggingFaceForm
from mrs.export.architectures.spec import RopeLayout
from mrs.export.checkpoints.json_section import JsonSection

_SOFTMAX, _SIGMOID = 1, 2  # Of GGUF's expert_gating_func.
_KEYS = {
    **EXPERT_KEYS,
    "q_lora_rank": "attention.q_lora_rank",
    "kv_lora_rank": "attention.kv_lora_rank",
    "qk_head_dim": "attention.key_length_mla",
    "v_head_dim": "attention.value_length_mla",
    "qk_rope_head_dim": "rope.dimension_count",
    "rope_interleave": "rope.interleaved",
    "expert_gating_func": "expert_gating_func",
    "yarn_log_multiplier": "rope.scaling.yarn_log_multiplier",
}
_TENSORS = {
    "self_attn.q_a_proj": "attn_q_a",
    "self_attn.q_a_layernorm": "attn_q_a_norm",
    "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa",
    "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "self_attn.kv_b_proj": "attn_kv_b",
    "mlp.gate.e_score_correction_bias": "exp_probs_b.bias",
    "mlp.shared_experts.gate_proj": "ffn_gate_shexp",
    "mlp.shared_experts.up_proj": "ffn_up_shexp",
    "mlp.shared_experts.down_proj": "ffn_down_shexp",
}
_SIZES = {
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}


def _of_both(config: JsonSection) -> dict[str, Any]:
    found: dict[str, Any] = {
        "qk_head_dim": config.size("qk_nope_head_dim") + config.size("qk_rope_head_dim")
    }
    rope = config.optional_section("rope_parameters") or config.optional_section("rope_scaling")
    if rope is not None and (scale := rope.optional_number("mscale_all_dim")):
        found["yarn_log_multiplier"] = 0.1 * scale
    return found


def _of_v2(config: JsonSection) -> Mapping[str, Any]:
    method = config.text("topk_method")
    if method not in ("greedy", "group_limited_greedy"):
        raise UnsupportedArchitectureError(
            f"{config.file}: topk_method is {method!r:.80}; DeepSeek-V2 has 'greedy' and "
            "'group_limited_greedy'.",
            hint="Export another model of the family.",
        )
    # transformers leaves the shares of V2 as they are, whatever norm_topk_prob says.
    found = {**_of_both(config), "expert_gating_func": _SOFTMAX, "norm_topk_prob": False}
    return {**found, "n_group": 1, "topk_group": 1} if method == "greedy" else found


def _of_v3(config: JsonSection) -> Mapping[str, Any]:
    return {**_of_both(config), "expert_gating_func": _SIGMOID}


_V2 = HuggingFaceForm(
    model_types=("deepseek_v2",),
    layout=RopeLayout.PAIRS,
    tensors=_TENSORS,
    config=_KEYS,
    aliases=EXPERT_ALIASES,
    derived=_of_v2,
    only={"moe_layer_freq": 1, "scoring_func": "softmax", "mlp_bias": False},
    stated={"attention_bias": ("attn_kv_a_mqa.bias", "attn_output.bias")},
    extra_layers=True,
    defaults={
        **_SIZES,
        "num_experts": 64,
        "n_shared_experts": 2,
        "moe_intermediate_size": 1407,
        "first_k_dense_replace": 0,
        "topk_method": "greedy",
        "attention_bias": False,
        "rms_norm_eps": 1e-6,
    },
)
_V3 = replace(
    _V2,
    model_types=("deepseek_v3",),
    derived=_of_v3,
    only={"moe_layer_freq": 1, "scoring_func": "sigmoid", "topk_method": "noaux_tc"},
    defaults={
        **_SIZES,
        "num_experts": 256,
        "n_shared_experts": 1,
        "moe_intermediate_size": 2048,
        "num_experts_per_tok": 8,
        "first_k_dense_replace": 3,
        "n_group": 8,
        "topk_group": 4,
        "routed_scaling_factor": 2.5,
        "norm_topk_prob": True,
        "attention_bias": False,
        "rms_norm_eps": 1e-6,
    },
)

DEEPSEEK2 = Family(
    name="deepseek2",
    title="DeepSeek-V2",
    gguf_layout=RopeLayout.PAIRS,
    latent_attention=True,
    huggingface=_V2,
)

DEEPSEEK3 = replace(DEEPSEEK2, title="DeepSeek-V3, R1", huggingface=_V3)
