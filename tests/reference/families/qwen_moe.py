"""Qwen 2 and 3 with experts: shares normalized or not, dense layers between, a shared expert."""

from __future__ import annotations

from typing import Any

from tests.reference.tiny_model import TinyModel, heads

_SMALL: dict[str, Any] = {
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
}
_SHARED: dict[str, Any] = {**_SMALL, "shared_expert_intermediate_size": 48}
_TWO_DENSE: dict[str, Any] = {
    "num_hidden_layers": 4,
    "mlp_only_layers": [1],
    "decoder_sparse_step": 2,
}

CASES = (
    TinyModel("qwen2moe", "qwen2_moe", _SHARED),
    TinyModel("qwen2moe-normalized", "qwen2_moe", {**_SHARED, "norm_topk_prob": True}, gguf=False),
    TinyModel("qwen2moe-dense", "qwen2_moe", {**_SHARED, **_TWO_DENSE}, gguf=False),
    TinyModel(
        "qwen3moe",
        "qwen3_moe",
        {**_SMALL, **heads(6, 2), "head_dim": 32, "norm_topk_prob": True},
    ),
    TinyModel("qwen3moe-plain-shares", "qwen3_moe", {**_SMALL, "head_dim": 16}, gguf=False),
    TinyModel(
        "qwen3moe-dense",
        "qwen3_moe",
        {**_SMALL, **_TWO_DENSE, "head_dim": 16, "norm_topk_prob": True, "decoder_sparse_step": 1},
        gguf=False,
    ),
)
