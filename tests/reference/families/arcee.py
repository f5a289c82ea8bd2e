"""Arcee: an MLP without a gate, and YaRN."""

from __future__ import annotations

from tests.reference.tiny_model import TinyModel, heads

_YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 32,
    "rope_theta": 10_000.0,
}

CASES = (
    TinyModel("arcee-8-8", "arcee", {**heads(8, 8), "tie_word_embeddings": True}),
    TinyModel("arcee-6-2", "arcee", heads(6, 2)),
    TinyModel("arcee-yarn", "arcee", {"rope_parameters": _YARN}, tokens=60),
    # llama.cpp reads no biases of this family's MLP.
    TinyModel("arcee-bias", "arcee", {"attention_bias": True, "mlp_bias": True}, gguf=False),
)
