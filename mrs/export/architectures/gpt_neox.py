"""GPT-NeoX (Black et al., arXiv:2204.06745) and Pythia (arXiv:2304.01373): parallel blocks with a
norm for each part, biases, a part of each head rotated."""

from __future__ import annotations

from mrs.export.architectures.family import Family, HuggingFaceForm
from mrs.export.architectures.spec import Activation, NormKind

GPT_NEOX = Family(
    name="gptneox",
    title="GPT-NeoX, Pythia",
    norm=NormKind.LAYER,
    activation=Activation.GELU_TANH,
    gated=False,
    parallel=True,
    biased=("*_norm", "ffn_*"),
    huggingface=HuggingFaceForm(
        model_types=("gpt_neox",),
        packed_by_group=True,
        tensors={
            "embed_in": "token_embd",
            "embed_out": "output",
            "final_layer_norm": "output_norm",
            "attention.query_key_value": "attn_qkv",
            "attention.dense": "attn_output",
            "mlp.dense_h_to_4h": "ffn_up",
            "mlp.dense_4h_to_h": "ffn_down",
        },
        ignored=("*.attention.bias", "*.attention.masked_bias"),
        aliases={"rotary_pct": "partial_rotary_factor", "rotary_emb_base": "rope_theta"},
        defaults={
            "max_position_embeddings": 2048,
            "layer_norm_eps": 1e-5,
            "hidden_act": "gelu",
            "partial_rotary_factor": 0.25,
            "use_parallel_residual": True,
            "attention_bias": True,
        },
        stated={"attention_bias": ("attn_qkv.bias", "attn_output.bias")},
    ),
)
