"""SmolLM3: a Llama whose every fourth layer has no position embedding (NoPE, arXiv:2501.18795)."""

from __future__ import annotations

from mrs.export.architectures.family import Family, HuggingFaceForm
from mrs.export.architectures.spec import RopeLayout

SMOLLM3 = Family(
    name="smollm3",
    title="SmolLM3",
    gguf_layout=RopeLayout.PAIRS,
    gguf_defaults={"rope.layers": 4},
    huggingface=HuggingFaceForm(
        model_types=("smollm3",),
        stated={
            "attention_bias": ("attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.bias"),
            "mlp_bias": ("ffn_gate.bias", "ffn_up.bias", "ffn_down.bias"),
        },
        config={"no_rope_layer_interval": "rope.layers"},
        defaults={
            "num_key_value_heads": 4,
            "max_position_embeddings": 32_768,
            "rms_norm_eps": 1e-6,
            "no_rope_layer_interval": 4,
            "rope_theta": 2_000_000.0,
            "use_sliding_window": False,
            "tie_word_embeddings": True,
        },
    ),
)
