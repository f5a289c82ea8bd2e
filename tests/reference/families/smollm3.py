"""SmolLM3: layers without a rotation."""

from __future__ import annotations

from tests.reference.tiny_model import TinyModel, heads

_FOUR = {"num_hidden_layers": 5, "tie_word_embeddings": True}
_YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 32,
    "rope_theta": 2_000_000.0,
}

CASES = (
    TinyModel("smollm3", "smollm3", _FOUR),
    TinyModel("smollm3-8-1", "smollm3", {**_FOUR, **heads(8, 1)}),
    TinyModel(
        "smollm3-bias",
        "smollm3",
        {**_FOUR, "attention_bias": True, "mlp_bias": True},
        gguf=False,
    ),
    TinyModel("smollm3-untied", "smollm3", {**_FOUR, "tie_word_embeddings": False}),
    TinyModel("smollm3-yarn", "smollm3", {**_FOUR, "rope_parameters": _YARN}, tokens=60),
    TinyModel(
        "smollm3-layers", "smollm3", {**_FOUR, "no_rope_layers": [0, 1, 1, 0, 1]}, gguf=False
    ),
    TinyModel(
        "smollm3-window",
        "smollm3",
        {**_FOUR, "use_sliding_window": True, "sliding_window": 12},
        gguf=False,
    ),
)
