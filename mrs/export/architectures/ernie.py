"""ERNIE 4.5, dense: a Llama whose rotation pairs neighbours in transformers, too."""

from __future__ import annotations

from mrs.export.architectures.family import Family, HuggingFaceForm
from mrs.export.architectures.spec import RopeLayout

ERNIE4_5 = Family(
    name="ernie4_5",
    title="ERNIE 4.5, dense",
    gguf_layout=RopeLayout.PAIRS,
    huggingface=HuggingFaceForm(
        model_types=("ernie4_5",),
        layout=RopeLayout.PAIRS,
        defaults={
            "num_key_value_heads": 2,
            "head_dim": 128,
            "max_position_embeddings": 131_072,
            "rms_norm_eps": 1e-5,
            "rope_theta": 500_000.0,
            "tie_word_embeddings": True,
        },
        stated={
            "use_bias": (
                *("attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.bias"),
                *("ffn_gate.bias", "ffn_up.bias", "ffn_down.bias"),
            )
        },
    ),
)
