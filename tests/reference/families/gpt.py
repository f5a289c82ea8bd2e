"""GPT-2 (learned positions, transposed matrices) and GPT-NeoX (queries packed by group)."""

from __future__ import annotations

from tests.reference.tiny_model import TinyModel, heads

_GPT2 = {
    "n_embd": 64,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 48,
    "num_key_value_heads": 4,
    "intermediate_size": None,
}
_TANH = {"hidden_act": "gelu_new"}

CASES = (
    TinyModel("gpt2", "gpt2", {**_GPT2, "tie_word_embeddings": True}),
    TinyModel("gpt2-untied", "gpt2", {**_GPT2, "n_inner": 96}),
    TinyModel("gpt-neox", "gpt_neox", {**heads(4, 4, 32), **_TANH, "rotary_pct": 0.25}),
    TinyModel(
        "gpt-neox-sequential",
        "gpt_neox",
        {**heads(2, 2, 32), **_TANH, "use_parallel_residual": False, "rotary_pct": 1.0},
    ),
    TinyModel(
        "gpt-neox-exact",
        "gpt_neox",
        # 24 of 96 dimensions, as in the 20B model.
        {**heads(2, 2, 96), "rotary_pct": 0.25, "attention_bias": False},
        gguf=False,
    ),
    TinyModel(
        "gpt-neox-linear",
        "gpt_neox",
        {
            **heads(4, 4, 32),
            **_TANH,
            "rope_parameters": {
                "rope_type": "linear",
                "factor": 4.0,
                "rope_theta": 10000.0,
                "partial_rotary_factor": 0.25,
            },
        },
        tokens=60,
    ),
)
