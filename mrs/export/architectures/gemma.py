"""Gemma (arXiv:2403.08295), Gemma 2 (arXiv:2408.00118) and the text part of Gemma 3
(arXiv:2503.19786).

transformers stores a norm's weight less 1, GGUF the weight itself. llama.cpp knows by the number of
layers which sizes scale attention by the width per head and not by the size of a head.
"""

from __future__ import annotations

from mrs.export.architectures.family import Family, HuggingFaceForm
from mrs.export.architectures.spec import Activation

_POST_NORMS = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
_STATED = {
    "attention_bias": ("attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.bias"),
}

GEMMA = Family(
    name="gemma",
    title="Gemma",
    activation=Activation.GELU_TANH,
    scale_embeddings=True,
    huggingface=HuggingFaceForm(
        model_types=("gemma",),
        norm_offset=1.0,
        stated=_STATED,
        # The first configs say "gelu" and mean the approximation that the model was trained with.
        activations={"gelu": Activation.GELU_TANH},
        defaults={
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "head_dim": 256,
            "hidden_act": "gelu_pytorch_tanh",
            "max_position_embeddings": 8192,
            "rms_norm_eps": 1e-6,
            "tie_word_embeddings": True,
        },
    ),
)

GEMMA2 = Family(
    name="gemma2",
    title="Gemma 2",
    activation=Activation.GELU_TANH,
    post_norm=True,
    scale_embeddings=True,
    wide_scale_layers=(46,),
    gguf_defaults={
        "attention.sliding_window": 4096,
        "attention.sliding_window_pattern": 2,
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
    },
    huggingface=HuggingFaceForm(
        model_types=("gemma2",),
        norm_offset=1.0,
        stated=_STATED,
        tensors=_POST_NORMS,
        defaults={
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "hidden_activation": "gelu_pytorch_tanh",
            "max_position_embeddings": 8192,
            "rms_norm_eps": 1e-6,
            "tie_word_embeddings": True,
            "query_pre_attn_scalar": 256,
            "sliding_window": 4096,
            "sliding_window_pattern": 2,
            "attn_logit_softcapping": 50.0,
            "final_logit_softcapping": 30.0,
        },
    ),
)

GEMMA3 = Family(
    name="gemma3",
    title="Gemma 3 (text)",
    activation=Activation.GELU_TANH,
    post_norm=True,
    query_key_norm=True,
    scale_embeddings=True,
    wide_scale_layers=(62,),
    gguf_defaults={"attention.sliding_window_pattern": 6, "rope.freq_base_swa": 10_000.0},
    huggingface=HuggingFaceForm(
        model_types=("gemma3_text",),
        norm_offset=1.0,
        stated=_STATED,
        tensors=_POST_NORMS,
        ignored=("*vision_tower.*", "*multi_modal_projector.*"),
        # Published configs of the larger sizes leave out most of these.
        defaults={
            "hidden_size": 2304,
            "intermediate_size": 9216,
            "num_hidden_layers": 26,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "hidden_activation": "gelu_pytorch_tanh",
            "max_position_embeddings": 131_072,
            "rms_norm_eps": 1e-6,
            "tie_word_embeddings": True,
            "query_pre_attn_scalar": 256,
            "sliding_window": 4096,
            "sliding_window_pattern": 6,
            "rope_theta": 1_000_000.0,
            "rope_local_base_freq": 10_000.0,
        },
    ),
)
