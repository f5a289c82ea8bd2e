"""Phi 1 to 2 (Gunasekar et al., arXiv:2306.11644): parallel blocks, biases everywhere.
Phi 3, 3.5 and 4 (arXiv:2404.14219): Llama's blocks with fused matrices and LongRoPE."""

from __future__ import annotations

from mrs.export.architectures.family import Family, HuggingFaceForm
from mrs.export.architectures.spec import Activation, NormKind

PHI2 = Family(
    name="phi2",
    title="Phi 1, 1.5 and 2",
    norm=NormKind.LAYER,
    activation=Activation.GELU_TANH,
    gated=False,
    parallel=True,
    shared_norm=True,
    biased=("attn_*", "ffn_*", "output_norm", "output"),
    huggingface=HuggingFaceForm(
        model_types=("phi",),
        tensors={
            "self_attn.dense": "attn_output",
            "self_attn.q_layernorm": "attn_q_norm",
            "self_attn.k_layernorm": "attn_k_norm",
            "mlp.fc1": "ffn_up",
            "mlp.fc2": "ffn_down",
            "final_layernorm": "output_norm",
        },
        defaults={
            "max_position_embeddings": 2048,
            "layer_norm_eps": 1e-5,
            "partial_rotary_factor": 0.5,
            "hidden_act": "gelu_new",
        },
        stated={"qk_layernorm": ("attn_q_norm.weight", "attn_k_norm.weight")},
    ),
)

PHI3 = Family(
    name="phi3",
    title="Phi 3, 3.5 and 4",
    huggingface=HuggingFaceForm(
        model_types=("phi3",),
        defaults={
            "max_position_embeddings": 4096,
            "original_max_position_embeddings": 4096,
            "rms_norm_eps": 1e-5,
        },
    ),
)
