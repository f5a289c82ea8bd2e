"""StarCoder 2 (Lozhkov et al., arXiv:2402.19173): layer norms, biases, an MLP without a gate."""

from __future__ import annotations

from mrs.export.architectures.family import Family, HuggingFaceForm
from mrs.export.architectures.spec import Activation, NormKind

_BIASES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_down")

STARCODER2 = Family(
    name="starcoder2",
    title="StarCoder 2",
    norm=NormKind.LAYER,
    activation=Activation.GELU_TANH,
    gated=False,
    biased=("*_norm",),
    huggingface=HuggingFaceForm(
        model_types=("starcoder2",),
        tensors={"mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"},
        defaults={
            "num_key_value_heads": 2,
            "max_position_embeddings": 4096,
            "norm_epsilon": 1e-5,
            "hidden_act": "gelu_pytorch_tanh",
            "use_bias": True,
            "tie_word_embeddings": True,
        },
        stated={"use_bias": tuple(f"{stem}.bias" for stem in _BIASES)},
    ),
)
