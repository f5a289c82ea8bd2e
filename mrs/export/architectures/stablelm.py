"""StableLM 3B and StableLM 2 (Bellagente et al., arXiv:2402.17834): Llama's blocks with layer
norms and a quarter of each head rotated; the 12B model's are parallel, with a norm per head."""

from __future__ import annotations

from mrs.export.architectures.family import Family, HuggingFaceForm
from mrs.export.architectures.spec import NormKind

STABLELM = Family(
    name="stablelm",
    title="StableLM 3B, StableLM 2",
    norm=NormKind.LAYER,
    shared_norm=True,
    biased=("attn_norm", "ffn_norm", "output_norm"),
    huggingface=HuggingFaceForm(
        model_types=("stablelm",),
        tensors={
            "self_attn.q_layernorm.norms.*": "attn_q_norm",
            "self_attn.k_layernorm.norms.*": "attn_k_norm",
        },
        aliases={"norm_eps": "layer_norm_eps", "rope_pct": "partial_rotary_factor"},
        defaults={
            "num_key_value_heads": 32,
            "max_position_embeddings": 4096,
            "layer_norm_eps": 1e-5,
            "partial_rotary_factor": 0.25,
            "use_qkv_bias": False,
            "qk_layernorm": False,
            "use_parallel_residual": False,
        },
        stated={
            "use_qkv_bias": ("attn_q.bias", "attn_k.bias", "attn_v.bias"),
            "qk_layernorm": ("attn_q_norm.weight", "attn_k_norm.weight"),
        },
    ),
)
