"""Arcee's foundation models (AFM): a Llama whose MLP squares its positive part and has no gate."""

from __future__ import annotations

from mrs.export.architectures.family import Family, HuggingFaceForm
from mrs.export.architectures.spec import Activation, RopeLayout

ARCEE = Family(
    name="arcee",
    title="Arcee AFM",
    gguf_layout=RopeLayout.PAIRS,
    activation=Activation.RELU_SQUARED,
    gated=False,
    huggingface=HuggingFaceForm(
        model_types=("arcee",),
        defaults={"hidden_act": "relu2", "max_position_embeddings": 4096, "rms_norm_eps": 1e-5},
        stated={
            "attention_bias": ("attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.bias"),
            "mlp_bias": ("ffn_up.bias", "ffn_down.bias"),
        },
    ),
)
