"""OLMo 2 (arXiv:2501.00656) and OLMo 3: the results of attention and MLP are normed, not their
inputs, and so are queries and keys over all heads.

GGUF files of both say ``olmo2``; those of OLMo 3 have a window.
"""

from __future__ import annotations

from dataclasses import replace

from mrs.export.architectures.family import Family, HuggingFaceForm

_POST_NORMS = {
    "post_attention_layernorm": "post_attention_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
_STATED = {
    "attention_bias": ("attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.bias"),
}
_DEFAULTS = {"max_position_embeddings": 2048, "rms_norm_eps": 1e-5}

OLMO2 = Family(
    name="olmo2",
    title="OLMo 2",
    pre_norm=False,
    post_norm=True,
    query_key_norm=True,
    plain_windows=True,
    gguf_defaults={"attention.sliding_window_pattern": 4},
    huggingface=HuggingFaceForm(
        model_types=("olmo2",),
        tensors=_POST_NORMS,
        stated=_STATED,
        defaults={**_DEFAULTS, "rope_theta": 10_000.0},
    ),
)

OLMO3 = replace(
    OLMO2,
    title="OLMo 3",
    huggingface=HuggingFaceForm(
        model_types=("olmo3",),
        tensors=_POST_NORMS,
        stated=_STATED,
        defaults={
            **_DEFAULTS,
            "rope_theta": 500_000.0,
            "sliding_window": 4096,
            "sliding_window_pattern": 4,
        },
    ),
)
