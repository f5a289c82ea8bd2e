"""StableLM: a quarter of each head rotates; parallel blocks with a norm for each head."""

from __future__ import annotations

from tests.reference.tiny_model import TinyModel, heads

CASES = (
    TinyModel("stablelm", "stablelm", {**heads(4, 4, 32), "use_qkv_bias": True}),
    TinyModel(
        "stablelm-parallel",
        "stablelm",
        # 20 of 80 dimensions, as in the 3B model.
        {**heads(2, 1, 80), "use_parallel_residual": True, "qk_layernorm": True},
    ),
    TinyModel(
        "stablelm-norms",
        "stablelm",
        {**heads(6, 2, 32), "partial_rotary_factor": 0.5, "qk_layernorm": True},
    ),
)
