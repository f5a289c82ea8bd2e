"""GLM-4 of both generations: neighbouring dimensions are paired, half of each head rotates."""

from __future__ import annotations

from tests.reference.tiny_model import TinyModel, heads

_HALF = {"partial_rotary_factor": 0.5}

CASES = (
    TinyModel("glm", "glm", {**heads(8, 1, 32), "head_dim": 32, **_HALF}),
    TinyModel(
        "glm-plain",
        "glm",
        {**heads(4, 2, 32), "head_dim": 32, "attention_bias": False, "tie_word_embeddings": True},
    ),
    TinyModel("glm4", "glm4", {**heads(6, 2, 32), "head_dim": 32, **_HALF}),
    TinyModel(
        "glm4-wide",
        "glm4",
        {**heads(4, 2, 24), "head_dim": 48, "attention_bias": False, **_HALF},
    ),
    TinyModel(
        "glm4-yarn",
        "glm4",
        {
            **heads(4, 2, 32),
            "head_dim": 32,
            "rope_parameters": {
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 32,
                "rope_theta": 10000.0,
                **_HALF,
            },
        },
        tokens=60,
    ),
)
