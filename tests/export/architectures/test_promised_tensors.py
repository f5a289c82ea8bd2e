"""Tensors whose loss nothing but these checks would notice, family by family."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file

from mrs.errors import CorruptCheckpointError, UnsupportedArchitectureError
from mrs.export.architectures.huggingface import HuggingFaceCheckpoint, open_huggingface
from mrs.export.architectures.registry import decoder_spec
from tests.export.test_parity_families import build
from tests.reference.families import CASES

BY_NAME = {case.name: case for case in CASES}


def lossy(
    name: str, folder: Path, *, without: str = "", config: dict[str, Any] | None = None
) -> HuggingFaceCheckpoint:
    """Open a tiny model whose folder lacks tensors, or has another configuration."""
    BY_NAME[name].write(folder)
    weights, file = folder / "model.safetensors", folder / "config.json"
    kept = {
        key: value for key, value in load_file(weights).items() if not without or without not in key
    }
    save_file(kept, weights)
    file.write_text(json.dumps({**json.loads(file.read_text()), **(config or {})}))
    return open_huggingface(folder)


@pytest.mark.parametrize(
    ("name", "lost", "tensor"),
    [
        ("phi-8-8", "layers.1.self_attn.q_proj.bias", "blk.1.attn_q.bias"),
        ("phi-8-8", "model.final_layernorm.bias", "output_norm.bias"),
        ("phi-8-8", "lm_head.bias", "output.bias"),
        ("phi-norms", "layers.0.self_attn.k_layernorm", "blk.0.attn_k_norm.weight"),
        ("starcoder2", "layers.0.mlp.c_fc.bias", "blk.0.ffn_up.bias"),
        ("starcoder2-plain", "layers.1.input_layernorm.bias", "blk.1.attn_norm.bias"),
        ("glm4", "layers.0.self_attn.v_proj.bias", "blk.0.attn_v.bias"),
        ("stablelm-norms", "layers.1.self_attn.q_layernorm", "blk.1.attn_q_norm.weight"),
        ("cohere-norms", "layers.0.self_attn.q_norm", "blk.0.attn_q_norm.weight"),
        ("cohere-bias", "layers.1.self_attn.o_proj.bias", "blk.1.attn_output.bias"),
        ("gpt2", "h.0.attn.c_attn.bias", "blk.0.attn_qkv.bias"),
        ("gpt-neox", "layers.0.mlp.dense_h_to_4h.bias", "blk.0.ffn_up.bias"),
        ("falcon-40b", "h.1.ln_attn.bias", "blk.1.attn_norm_2.bias"),
    ],
)
def test_a_lost_tensor_is_named(name: str, lost: str, tensor: str, tmp_path: Path) -> None:
    with pytest.raises(CorruptCheckpointError, match=f"lacks the tensor '{tensor}'"):
        decoder_spec(lossy(name, tmp_path, without=lost))


@pytest.mark.parametrize(
    ("name", "flag", "tensor"),
    [
        ("phi-norms", "qk_layernorm", "blk.0.attn_q_norm.weight"),
        ("starcoder2", "use_bias", "blk.0.attn_q.bias"),
        ("glm", "attention_bias", "blk.0.attn_q.bias"),
        ("cohere-bias", "attention_bias", "blk.0.attn_q.bias"),
        ("falcon-sequential", "bias", "blk.0.attn_qkv.bias"),
    ],
)
def test_a_tensor_that_the_configuration_denies_is_named(
    name: str, flag: str, tensor: str, tmp_path: Path
) -> None:
    with pytest.raises(CorruptCheckpointError, match=f"has the tensor '{tensor}', but {flag} says"):
        decoder_spec(lossy(name, tmp_path, config={flag: False}))


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("gpt2", "scale_attn_by_inverse_layer_idx", True),
        ("gpt2", "scale_attn_weights", False),
        ("gpt2", "add_cross_attention", True),
        ("falcon-7b", "alibi", True),
    ],
)
def test_a_variant_that_is_not_exported_is_named(
    name: str, key: str, value: bool, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedArchitectureError, match=f"{key} is {json.dumps(value)}; "):
        decoder_spec(lossy(name, tmp_path, config={key: value}))


@pytest.mark.parametrize(
    ("name", "lost", "tensor"),
    [
        ("gpt-neox", "layers.0.post_attention_layernorm", "blk.0.ffn_norm"),
        ("stablelm", "layers.1.post_attention_layernorm", "blk.1.ffn_norm"),
        ("glm4", "layers.0.post_mlp_layernorm", "blk.0.post_ffw_norm"),
        ("falcon-40b", "h.0.ln_mlp", "blk.0.attn_norm"),
        ("gpt2", "wpe", "position_embd"),
    ],
)
def test_a_lost_norm_or_table_is_named(name: str, lost: str, tensor: str, tmp_path: Path) -> None:
    with pytest.raises(CorruptCheckpointError, match=f"lacks the (tensor|matrix) '?{tensor}"):
        build(lossy(name, tmp_path, without=lost), tmp_path)
