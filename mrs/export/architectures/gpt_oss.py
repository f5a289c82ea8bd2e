"""GPT-OSS (arXiv:2508.10925): experts in MXFP4, attention with sinks and a window in turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mrs.export.architectures.expert_config import EXPERT_ALIASES, EXPERT_KEYS
from mrs.export.architectures.family import Family, HuggingFaceForm
from mrs.export.checkpoints.json_section import JsonSection


def _derived(config: JsonSection) -> Mapping[str, Any]:
    found: dict[str, Any] = {"moe_intermediate_size": config.size("intermediate_size")}
    if not (config.has("rope_parameters") or config.has("rope_scaling")):
        found["rope_parameters"] = {
            "rope_type": "yarn",
            "factor": 32.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "truncate": False,
            "original_max_position_embeddings": 4096,
        }
    return found


GPT_OSS = Family(
    name="gpt-oss",
    title="GPT-OSS",
    sinks=True,
    full_attention_every=2,
    biased=(
        *("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate_inp"),
        *("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"),
    ),
    normalizes_experts=True,
    expert_alpha=1.702,
    expert_shift=1.0,
    expert_clamp=7.0,
    gguf_tensors={"post_attention_norm": "ffn_norm"},
    # The model was trained so; files have no key for it.
    gguf_defaults={"rope.scaling.truncate": False},
    huggingface=HuggingFaceForm(
        model_types=("gpt_oss",),
        tensors={
            "mlp.router": "ffn_gate_inp",
            "mlp.experts.gate_up_proj_bias": "ffn_gate_up_exps.bias",
            "mlp.experts.gate_up_proj_blocks": "ffn_gate_up_exps.mxfp4_codes",
            "mlp.experts.gate_up_proj_scales": "ffn_gate_up_exps.mxfp4_exponents",
            "mlp.experts.down_proj_bias": "ffn_down_exps.bias",
            "mlp.experts.down_proj_blocks": "ffn_down_exps.mxfp4_codes",
            "mlp.experts.down_proj_scales": "ffn_down_exps.mxfp4_exponents",
        },
        transposed=frozenset({"ffn_gate_up_exps", "ffn_down_exps"}),
        gate_up_in_turn=True,
        config=EXPERT_KEYS,
        aliases=EXPERT_ALIASES,
        derived=_derived,
        only={"swiglu_alpha": 1.702, "attention_bias": True},
        defaults={
            "num_experts": 128,
            "num_experts_per_tok": 4,
            "num_key_value_heads": 8,
            "head_dim": 64,
            "sliding_window": 128,
            "rms_norm_eps": 1e-5,
            "rope_theta": 150000.0,
        },
    ),
)
