"""DeepSeek-V2 and V3: compressed queries or not, wide and narrow values, both routers, YaRN."""

from __future__ import annotations

from typing import Any

from tests.reference.tiny_model import TinyModel

_SMALL: dict[str, Any] = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 32,
    "q_lora_rank": 48,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 16,
    "v_head_dim": 16,
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "n_shared_experts": 2,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
}
_V3: dict[str, Any] = {**_SMALL, "n_group": 4, "topk_group": 2, "n_shared_experts": 1}
_YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "original_max_position_embeddings": 16,
    "beta_fast": 4.0,
    "beta_slow": 1.0,
    "mscale": 0.707,
    "mscale_all_dim": 0.707,
}

CASES = (
    TinyModel("deepseek2-lite", "deepseek_v2", {**_SMALL, "q_lora_rank": None}),
    TinyModel(
        "deepseek2-yarn",
        "deepseek_v2",
        {**_SMALL, "rope_parameters": _YARN, "v_head_dim": 32, "routed_scaling_factor": 2.0},
        tokens=60,
    ),
    TinyModel(
        "deepseek2-groups",
        "deepseek_v2",
        {**_SMALL, "topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2},
    ),
    TinyModel("deepseek3", "deepseek_v3", {**_V3, "v_head_dim": 24}),
    TinyModel(
        "deepseek3-yarn",
        "deepseek_v3",
        {**_V3, "rope_parameters": {**_YARN, "mscale": 1.0, "mscale_all_dim": 1.0}},
        tokens=60,
    ),
    TinyModel(
        "deepseek3-wide-values",
        "deepseek_v3",
        {**_V3, "v_head_dim": 48, "norm_topk_prob": False, "q_lora_rank": None},
    ),
    TinyModel(
        "deepseek3-halves",
        "deepseek_v3",
        {**_V3, "rope_interleave": False, "n_group": 1, "topk_group": 1},
        gguf=False,
    ),
    TinyModel(
        "deepseek3-amplitude",
        "deepseek_v3",
        {**_V3, "rope_parameters": {**_YARN, "mscale": 1.0, "mscale_all_dim": 0.5}},
        tokens=60,
        gguf=False,
    ),
)
