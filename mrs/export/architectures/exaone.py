"""EXAONE 4 (arXiv:2507.11407): norms after attention and MLP, and norms of queries and keys.

The large size is a hybrid: three layers with a window, which rotate, to one without, which does
not. The small one has no window and rotates everywhere.
"""

from __future__ import annotations

from mrs.export.architectures.family import Family, HuggingFaceForm

EXAONE4 = Family(
    name="exaone4",
    title="EXAONE 4",
    pre_norm=False,
    post_norm=True,
    query_key_norm=True,
    rope_in_windows_only=True,
    rotates_without_windows=True,
    gguf_defaults={"attention.sliding_window_pattern": 4},
    huggingface=HuggingFaceForm(
        model_types=("exaone4",),
        tensors={
            "post_attention_layernorm": "post_attention_norm",
            "post_feedforward_layernorm": "post_ffw_norm",
        },
        defaults={
            "max_position_embeddings": 2048,
            "rms_norm_eps": 1e-5,
            "num_key_value_heads": 32,
            "sliding_window": 4096,
            "sliding_window_pattern": 4,
        },
    ),
)
