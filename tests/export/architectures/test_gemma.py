"""Gemma as published: what its configs leave out, and what GGUF files do not say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mrs.errors import UnsupportedArchitectureError
from mrs.export.architectures.huggingface import open_huggingface
from mrs.export.architectures.spec import Activation, LinearScaling, MlpSpec
from tests.export.architectures.described import attentions, spec_of_config, spec_of_gguf
from tests.reference.families.gemma import CASES

GEMMA_2B: dict[str, Any] = {
    "model_type": "gemma",
    "hidden_act": "gelu",
    "hidden_size": 2048,
    "intermediate_size": 16384,
    "head_dim": 256,
    "num_attention_heads": 8,
    "num_hidden_layers": 18,
    "num_key_value_heads": 1,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 8192,
    "rope_scaling": None,
    "rope_theta": 10000.0,
}
GEMMA2_27B: dict[str, Any] = {
    "model_type": "gemma2",
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 4608,
    "intermediate_size": 36864,
    "head_dim": 128,
    "num_attention_heads": 32,
    "num_hidden_layers": 46,
    "num_key_value_heads": 16,
    "query_pre_attn_scalar": 144,
    "sliding_window": 4096,
    "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0,
}
GEMMA3_4B: dict[str, Any] = {
    "architectures": ["Gemma3ForConditionalGeneration"],
    "model_type": "gemma3",
    "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 1152},
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    },
}


def test_gelu_is_the_approximation_in_the_first_configs(tmp_path: Path) -> None:
    spec = spec_of_config(tmp_path, GEMMA_2B)
    mlps = [layer.mlp for layer in spec.layers if isinstance(layer.mlp, MlpSpec)]
    assert {mlp.activation for mlp in mlps} == {Activation.GELU_TANH}
    assert len(mlps) == 18


def test_embeddings_are_multiplied_by_the_root_of_their_width(tmp_path: Path) -> None:
    spec = spec_of_config(tmp_path, GEMMA_2B)
    assert spec.embedding_scale == pytest.approx(2048**0.5)
    assert spec.tied_embeddings
    assert spec.norm.offset == 1.0


def test_every_second_layer_of_gemma_2_has_a_window(tmp_path: Path) -> None:
    found = attentions(spec_of_config(tmp_path, GEMMA2_27B))
    assert [attention.window for attention in found] == [4096, None] * 23
    assert found[0].scale == pytest.approx(144**-0.5)
    assert found[0].softcap == 50.0


def test_a_cap_of_null_is_none(tmp_path: Path) -> None:
    capless = {"attn_logit_softcapping": None, "final_logit_softcapping": None}
    spec = spec_of_config(tmp_path, {**GEMMA2_27B, **capless})
    assert attentions(spec)[0].softcap == 0.0
    assert spec.logit_softcap == 0.0


def test_what_the_config_of_gemma_3_leaves_out(tmp_path: Path) -> None:
    spec = spec_of_config(tmp_path, GEMMA3_4B)
    found = attentions(spec)
    assert [attention.window for attention in found[:6]] == [1024] * 5 + [None]
    assert sum(attention.window is None for attention in found) == 5
    assert {(a.num_heads, a.num_kv_heads, a.head_dim) for a in found} == {(8, 4, 256)}
    assert spec.context_length == 131_072
    assert found[0].softcap == spec.logit_softcap == 0.0


def test_gemma_3_rotates_otherwise_in_windows(tmp_path: Path) -> None:
    found = attentions(spec_of_config(tmp_path, GEMMA3_4B))
    local, everything = found[0].rope, found[5].rope
    assert local is not None and everything is not None
    assert (local.base, local.scaling) == (10_000.0, None)
    assert (everything.base, everything.scaling) == (1_000_000.0, LinearScaling(8.0))


def test_rotations_of_a_new_config_win_over_defaults(tmp_path: Path) -> None:
    ropes = {
        "sliding_attention": {"rope_type": "default", "rope_theta": 5_000.0},
        "full_attention": {"rope_type": "default", "rope_theta": 7_000.0},
    }
    text = {**GEMMA3_4B["text_config"], "rope_scaling": None, "rope_parameters": ropes}
    found = attentions(spec_of_config(tmp_path, {**GEMMA3_4B, "text_config": text}))
    bases = [attention.rope.base for attention in found[4:6] if attention.rope is not None]
    assert bases == [5_000.0, 7_000.0]


@pytest.mark.parametrize(
    ("name", "layers", "scale"), [("gemma2", 46, 288), ("gemma3", 62, 288), ("gemma2", 26, 128)]
)
def test_llama_cpp_knows_the_scale_by_the_number_of_layers(
    name: str, layers: int, scale: int
) -> None:
    keys: dict[str, Any] = {"block_count": layers, "embedding_length": 2304}
    spec = spec_of_gguf(name, {**keys, "attention.key_length": 128})
    assert attentions(spec)[0].scale == pytest.approx(scale**-0.5)


def test_first_gguf_files_of_gemma_2_say_nothing_of_caps_and_windows() -> None:
    spec = spec_of_gguf("gemma2", {})
    assert attentions(spec)[0].softcap == 50.0
    assert spec.logit_softcap == 30.0
    assert [attention.window for attention in attentions(spec)] == [4096, None] * 4


def test_a_gguf_file_of_gemma_3_without_a_window_has_none() -> None:
    found = attentions(spec_of_gguf("gemma3", {"rope.freq_base": 1e6}))
    assert {attention.window for attention in found} == {None}
    assert {attention.rope.base for attention in found if attention.rope} == {1e6}


def test_the_weights_of_norms_are_whole_in_gguf_files() -> None:
    assert spec_of_gguf("gemma3", {}).norm.offset == 0.0


def test_a_scaled_rotation_in_windows_is_refused(tmp_path: Path) -> None:
    scaled = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10_000.0}
    ropes = {"sliding_attention": scaled, "full_attention": scaled}
    text = {**GEMMA3_4B["text_config"], "rope_scaling": None, "rope_parameters": ropes}
    with pytest.raises(UnsupportedArchitectureError, match="'linear' in layers with a window"):
        spec_of_config(tmp_path, {**GEMMA3_4B, "text_config": text})


@pytest.mark.parametrize("prefix", ["language_model.model.", "model.language_model."])
def test_the_text_part_of_a_multimodal_model_is_found(tmp_path: Path, prefix: str) -> None:
    case = next(case for case in CASES if case.name == "gemma3-window")
    folder = case.write(tmp_path)
    checkpoint = open_huggingface(folder)
    expected = set(checkpoint.tensors)
    checkpoint.close()
    stored = load_file(folder / "model.safetensors")
    renamed = {prefix + name.removeprefix("model."): values for name, values in stored.items()}
    tower = prefix.replace("language_model", "vision_tower").replace("model.model", "model")
    for part in ("multi_modal_projector.mm_soft_emb_norm", f"{tower}encoder.layers.0.mlp.fc1"):
        renamed[f"{part}.weight"] = np.zeros((4, 4), np.float32)
    save_file(renamed, folder / "model.safetensors")
    whole = open_huggingface(folder)
    assert set(whole.tensors) == expected
    whole.close()
