"""GPT-OSS: biases of experts, sinks, windows in turn, YaRN with a ramp that is not rounded."""

from __future__ import annotations

from typing import Any

from tests.reference.tiny_model import TinyModel, heads

_SMALL: dict[str, Any] = {
    "num_local_experts": 6,
    "num_experts_per_tok": 3,
    "sliding_window": 12,
    "head_dim": 16,
}
_YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "beta_fast": 8.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 32,
    "rope_theta": 150000.0,
}

CASES = (
    TinyModel("gpt-oss", "gpt_oss", {**_SMALL, "rope_parameters": _YARN}, tokens=60),
    TinyModel(
        "gpt-oss-8-1",
        "gpt_oss",
        {
            **_SMALL,
            **heads(8, 1),
            "num_hidden_layers": 3,
            "head_dim": 32,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        },
    ),
    # Products that reach the bound.
    TinyModel(
        "gpt-oss-clamped",
        "gpt_oss",
        {**_SMALL, "rope_parameters": _YARN, "swiglu_limit": 0.5},
        gguf=False,
    ),
)
