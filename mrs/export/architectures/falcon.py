"""Falcon (Almazrouei et al., arXiv:2311.16867): parallel blocks over one norm or one for each
part, few key heads, one matrix for queries, keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mrs.export.architectures.family import Family, HuggingFaceForm
from mrs.export.architectures.spec import Activation, NormKind
from mrs.export.checkpoints.json_section import JsonSection


def _key_heads(config: JsonSection) -> Mapping[str, Any]:
    """How many there are; only the newer models say it with a number."""
    heads = config.size("num_attention_heads")
    if config.flag("new_decoder_architecture", False):
        heads = config.optional_size("num_kv_heads") or heads
    elif config.flag("multi_query", True):
        heads = 1
    return {"num_key_value_heads": heads}


FALCON = Family(
    name="falcon",
    title="Falcon 7B, 40B and 11B",
    norm=NormKind.LAYER,
    activation=Activation.GELU_TANH,
    gated=False,
    parallel=True,
    shared_norm=True,
    biased=("*_norm", "*_norm_2"),
    huggingface=HuggingFaceForm(
        model_types=("falcon",),
        packed_by_group=True,
        tensors={
            "word_embeddings": "token_embd",
            "ln_f": "output_norm",
            "ln_attn": "attn_norm_2",
            "ln_mlp": "attn_norm",
            "self_attention.query_key_value": "attn_qkv",
            "self_attention.dense": "attn_output",
            "mlp.dense_h_to_4h": "ffn_up",
            "mlp.dense_4h_to_h": "ffn_down",
        },
        aliases={
            "n_embed": "hidden_size",
            "n_head": "num_attention_heads",
            "n_layer": "num_hidden_layers",
            "n_head_kv": "num_kv_heads",
            "ffn_hidden_size": "intermediate_size",
            "activation": "hidden_act",
            "parallel_attn": "use_parallel_residual",
        },
        derived=_key_heads,
        defaults={
            "max_position_embeddings": 2048,
            "layer_norm_epsilon": 1e-5,
            "hidden_act": "gelu",
            "tie_word_embeddings": True,
            "bias": False,
        },
        only={"alibi": False},
        stated={
            "bias": ("attn_qkv.bias", "attn_output.bias", "ffn_up.bias", "ffn_down.bias"),
        },
    ),
)
