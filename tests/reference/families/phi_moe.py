"""Phi-3.5-MoE: the sparse mixer, near ties and clear winners, LongRoPE with factors of its own."""

from __future__ import annotations

from typing import Any

from tests.reference.tiny_model import TinyModel, heads

_SMALL: dict[str, Any] = {"num_local_experts": 6, "num_experts_per_tok": 2, "lm_head_bias": True}


def _longrope(original: int) -> dict[str, Any]:
    # transformers takes the short factors at any length: these are the long ones as well.
    factors = [1.0 + 0.25 * pair for pair in range(8)]
    return {
        "rope_parameters": {
            "rope_type": "longrope",
            "rope_theta": 10000.0,
            "short_factor": factors,
            "long_factor": factors,
            "short_mscale": 1.2,
            "long_mscale": 1.2,
            "original_max_position_embeddings": original,
        }
    }


CASES = (
    TinyModel("phimoe", "phimoe", {**_SMALL, "attention_bias": True}),
    # So wide that several experts are near the best.
    TinyModel("phimoe-jitter", "phimoe", {**_SMALL, "router_jitter_noise": 0.4}, gguf=False),
    TinyModel("phimoe-6-2", "phimoe", {**_SMALL, **heads(6, 2)}),
    TinyModel("phimoe-long", "phimoe", {**_SMALL, **_longrope(32)}, tokens=60),
)
