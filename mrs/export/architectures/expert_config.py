"""Keys of ``config.json`` that tell of experts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mrs.export.checkpoints.json_section import JsonSection

EXPERT_ALIASES: Mapping[str, str] = {
    "num_local_experts": "num_experts",
    "n_routed_experts": "num_experts",
    "num_experts_per_token": "num_experts_per_tok",
}
"""Key of ``config.json`` -> key that means the same."""

EXPERT_KEYS: Mapping[str, str] = {
    "num_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count",
    "moe_intermediate_size": "expert_feed_forward_length",
    "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
    "n_shared_experts": "expert_shared_count",
    "norm_topk_prob": "expert_weights_norm",
    "routed_scaling_factor": "expert_weights_scale",
    "n_group": "expert_group_count",
    "topk_group": "expert_group_used_count",
    "first_k_dense_replace": "leading_dense_block_count",
    "router_jitter_noise": "expert_router_jitter",
    "swiglu_limit": "expert_clamp",
    "sparse_layers": "expert_layers",
}
"""Key of ``config.json`` -> canonical key. ``sparse_layers``, ``expert_router_jitter``,
``expert_clamp`` and ``expert_layers`` are names of our own."""


def every_few_layers(config: JsonSection) -> Mapping[str, Any]:
    """``sparse_layers`` of a family with ``decoder_sparse_step`` and ``mlp_only_layers``.

    Raises:
        CheckpointError: a value is missing or of the wrong type.
    """
    step = config.optional_size("decoder_sparse_step") or 1
    dense = set(config.optional_counts("mlp_only_layers") or ())
    layers = range(config.size("num_hidden_layers"))
    return {"sparse_layers": [(index + 1) % step == 0 and index not in dense for index in layers]}
