"""Seed-OSS: a Llama whose queries, keys and values have biases."""

from __future__ import annotations

from mrs.export.architectures.family import Family, HuggingFaceForm

SEED_OSS = Family(
    name="seed_oss",
    title="Seed-OSS",
    # It is the norm before the MLP in spite of its name.
    gguf_tensors={"post_attention_norm": "ffn_norm"},
    huggingface=HuggingFaceForm(
        model_types=("seed_oss",),
        stated={
            "attention_bias": ("attn_q.bias", "attn_k.bias", "attn_v.bias"),
            "attention_out_bias": ("attn_output.bias",),
            "mlp_bias": ("ffn_gate.bias", "ffn_up.bias", "ffn_down.bias"),
        },
        defaults={
            "attention_bias": True,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "max_position_embeddings": 524_288,
            "rms_norm_eps": 1e-6,
        },
    ),
)
