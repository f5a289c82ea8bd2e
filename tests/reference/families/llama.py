"""Llama, Mistral: head ratios, ties, biases, every scaling of the rotation, a window."""

from __future__ import annotations

from tests.reference.tiny_model import TinyModel, heads

_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
_THETA = {"rope_theta": 10000.0}

CASES = (
    TinyModel("llama-8-8", "llama", heads(8, 8)),
    TinyModel("llama-8-1", "llama", {**heads(8, 1), "tie_word_embeddings": True}),
    TinyModel("llama-6-2", "llama", heads(6, 2)),
    TinyModel("llama-12-4", "llama", heads(12, 4)),
    TinyModel("llama-bias", "llama", {"attention_bias": True, "mlp_bias": True}),
    TinyModel("llama-head-dim", "llama", {"head_dim": 32}),
    TinyModel(
        "llama-linear",
        "llama",
        {"rope_parameters": {"rope_type": "linear", "factor": 4.0, **_THETA}},
    ),
    TinyModel("llama-llama3", "llama", {"rope_parameters": {**_LLAMA3, **_THETA}}, tokens=60),
    TinyModel("llama-yarn", "llama", {"rope_parameters": {**_YARN, **_THETA}}, tokens=60),
    TinyModel(
        "llama-dynamic",
        "llama",
        # As long as the prompt: a sequence that grows into it changes its own past.
        {
            "rope_parameters": {"rope_type": "dynamic", "factor": 4.0, **_THETA},
            "max_position_embeddings": 32,
        },
        tokens=64,
        context=64,
        gguf=False,
    ),
    TinyModel("mistral-window", "mistral", {"sliding_window": 12}, gguf=False),
    TinyModel("mistral-no-window", "mistral", {"sliding_window": None, "head_dim": 32}),
)
