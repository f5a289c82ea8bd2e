"""GPT-2 (Radford et al., 2019): learned positions, biases everywhere, a tied head."""

from __future__ import annotations

from mrs.export.architectures.family import Family, HuggingFaceForm
from mrs.export.architectures.spec import Activation, NormKind

GPT2 = Family(
    name="gpt2",
    title="GPT-2",
    norm=NormKind.LAYER,
    activation=Activation.GELU_TANH,
    gated=False,
    learned_positions=True,
    biased=("attn_*", "ffn_*", "output_norm"),
    huggingface=HuggingFaceForm(
        model_types=("gpt2",),
        tensors={
            "wte": "token_embd",
            "wpe": "position_embd",
            "ln_1": "attn_norm",
            "attn.c_attn": "attn_qkv",
            "attn.c_proj": "attn_output",
            "ln_2": "ffn_norm",
            "mlp.c_fc": "ffn_up",
            "mlp.c_proj": "ffn_down",
            "ln_f": "output_norm",
        },
        transposed=frozenset({"attn_qkv", "attn_output", "ffn_up", "ffn_down"}),
        # Causal masks, which old versions of transformers saved among the weights.
        ignored=("*.attn.bias", "*.attn.masked_bias"),
        aliases={
            "n_embd": "hidden_size",
            "n_positions": "max_position_embeddings",
            "n_head": "num_attention_heads",
            "n_layer": "num_hidden_layers",
            "n_inner": "intermediate_size",
        },
        defaults={
            "max_position_embeddings": 1024,
            "layer_norm_epsilon": 1e-5,
            "activation_function": "gelu_new",
            "tie_word_embeddings": True,
        },
        only={
            "scale_attn_weights": True,
            "scale_attn_by_inverse_layer_idx": False,
            "add_cross_attention": False,
        },
    ),
)
