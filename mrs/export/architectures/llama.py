"""The Llama family (Touvron et al., arXiv:2302.13971): Llama 1-3.x, SmolLM, and what is like it."""

from __future__ import annotations

from mrs.export.architectures.expert_spec import RouterKind
from mrs.export.architectures.family import Family, HuggingFaceForm
from mrs.export.architectures.spec import RopeLayout

LLAMA = Family(
    name="llama",
    title="Llama 1-3.x, SmolLM",
    gguf_layout=RopeLayout.PAIRS,
    router=RouterKind.SOFTMAX,
    normalizes_experts=True,
    huggingface=HuggingFaceForm(
        model_types=("llama",),
        stated={
            "attention_bias": ("attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.bias"),
            "mlp_bias": ("ffn_gate.bias", "ffn_up.bias", "ffn_down.bias"),
        },
    ),
)
