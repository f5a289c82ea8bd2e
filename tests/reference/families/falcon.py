"""Falcon: one key head, several, and the sequential blocks of small ones."""

from __future__ import annotations

from tests.reference.tiny_model import TinyModel, heads

_TANH = {"activation": "gelu_new", "tie_word_embeddings": True, "intermediate_size": None}
_NEW = {"new_decoder_architecture": True, "num_kv_heads": 2}

CASES = (
    TinyModel("falcon-7b", "falcon", {**heads(6, 1), **_TANH}),
    TinyModel("falcon-40b", "falcon", {**heads(6, 2), **_TANH, **_NEW}),
    TinyModel(
        "falcon-11b", "falcon", {**heads(6, 2), **_TANH, **_NEW, "num_ln_in_parallel_attn": 1}
    ),
    TinyModel(
        "falcon-sequential",
        "falcon",
        {
            **heads(4, 4),
            "multi_query": False,
            "parallel_attn": False,
            "bias": True,
            "intermediate_size": None,
        },
        gguf=False,
    ),
)
