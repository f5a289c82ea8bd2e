"""DeepSeek's configurations and files as published, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mrs.errors import CorruptCheckpointError, UnsupportedArchitectureError
from mrs.export.architectures.expert_spec import MoeSpec, RouterKind
from mrs.export.architectures.huggingface import open_huggingface
from mrs.export.architectures.spec import LatentAttentionSpec, MlpSpec, RopeLayout, YarnScaling
from mrs.export.checkpoints.checkpoint import MetadataValue
from tests.export.architectures.described import spec_of_config, spec_of_gguf
from tests.export.safetensors_files import RawTensor, TensorItem, write_safetensors
from tests.export.test_parity_families import build, compare
from tests.reference.families import CASES

V3 = {
    "model_type": "deepseek_v3",
    "first_k_dense_replace": 3,
    "hidden_act": "silu",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "kv_lora_rank": 512,
    "max_position_embeddings": 163840,
    "moe_intermediate_size": 2048,
    "moe_layer_freq": 1,
    "n_group": 8,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_attention_heads": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 5,
    "num_key_value_heads": 128,
    "num_nextn_predict_layers": 1,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "rms_norm_eps": 1e-06,
    "rope_scaling": {
        "beta_fast": 32,
        "beta_slow": 1,
        "factor": 40,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096,
        "type": "yarn",
    },
    "rope_theta": 10000,
    "routed_scaling_factor": 2.5,
    "scoring_func": "sigmoid",
    "topk_group": 4,
    "topk_method": "noaux_tc",
    "v_head_dim": 128,
}
SIZES: dict[str, MetadataValue] = {
    "attention.kv_lora_rank": 512,
    "attention.q_lora_rank": 1536,
    "rope.dimension_count": 64,
    "expert_count": 8,
    "expert_used_count": 2,
    "leading_dense_block_count": 1,
}
OLDER: dict[str, MetadataValue] = {"attention.key_length": 192, "attention.value_length": 128}
NEWER: dict[str, MetadataValue] = {
    "attention.key_length": 576,
    "attention.value_length": 512,
    "attention.key_length_mla": 192,
    "attention.value_length_mla": 128,
    "attention.head_count_kv": 1,
}


def latent(spec: Any) -> LatentAttentionSpec:
    found = spec.layers[0].attention
    assert isinstance(found, LatentAttentionSpec)
    return found


def test_deepseek_v3(tmp_path: Path) -> None:
    spec = spec_of_config(tmp_path, V3)
    attention = latent(spec)
    assert (attention.query_rank, attention.kv_rank, attention.plain_dim) == (1536, 512, 128)
    assert attention.rope.layout is RopeLayout.PAIRS
    # softmax_scale of the model's own code: mscale * mscale / sqrt(192)
    mscale = 0.1 * math.log(40) + 1
    assert attention.scale == pytest.approx(mscale * mscale / math.sqrt(192))
    scaling = attention.rope.scaling
    assert isinstance(scaling, YarnScaling) and scaling.attention_factor == 1.0
    assert (spec.num_kv_heads, spec.head_dim) == (128, 192)
    assert [type(layer.mlp) for layer in spec.layers] == [MlpSpec] * 3 + [MoeSpec] * 2
    experts = spec.layers[3].mlp
    assert isinstance(experts, MoeSpec)
    assert (experts.experts, experts.width, experts.shared_width) == (256, 2048, 2048)
    router = experts.router
    assert (router.kind, router.scale, router.normalize) == (RouterKind.SIGMOID, 2.5, True)
    assert (router.groups, router.groups_used, router.group_best) == (8, 4, 2)


def test_deepseek_v2_without_groups(tmp_path: Path) -> None:
    """config.json of DeepSeek-V2-Lite but for the query, which it does not compress."""
    config = {
        **V3,
        "model_type": "deepseek_v2",
        "n_group": 1,
        "topk_group": 1,
        "n_routed_experts": 64,
        "n_shared_experts": 2,
        "norm_topk_prob": False,
        "routed_scaling_factor": 1.0,
        "scoring_func": "softmax",
        "topk_method": "greedy",
    }
    experts = spec_of_config(tmp_path, config).layers[3].mlp
    assert isinstance(experts, MoeSpec)
    assert experts.shared_width == 4096
    router = experts.router
    assert (router.kind, router.groups, router.normalize) == (RouterKind.SOFTMAX, 1, False)


@pytest.mark.parametrize(
    ("model_type", "values"),
    [
        ("deepseek_v2", {"topk_method": "noaux_tc", "scoring_func": "softmax"}),
        ("deepseek_v2", {"topk_method": "greedy", "scoring_func": "sigmoid"}),
        ("deepseek_v3", {"topk_method": "greedy"}),
        ("deepseek_v3", {"moe_layer_freq": 2}),
    ],
)
def test_other_ways_to_route_are_refused(
    tmp_path: Path, model_type: str, values: dict[str, Any]
) -> None:
    with pytest.raises(UnsupportedArchitectureError, match=r"topk_method|scoring_func|moe_layer"):
        spec_of_config(tmp_path, {**V3, "model_type": model_type, **values})


@pytest.mark.parametrize("sizes", [OLDER, NEWER], ids=["older", "newer"])
def test_heads_of_gguf_files_have_their_expanded_sizes(sizes: dict[str, MetadataValue]) -> None:
    spec = spec_of_gguf("deepseek2", {**SIZES, **sizes})
    attention = latent(spec)
    assert (attention.plain_dim, attention.rope.dims, attention.value_dim) == (128, 64, 128)
    assert (spec.num_kv_heads, spec.head_dim) == (8, 192)


def test_the_multiplier_of_gguf_files_is_in_the_scale() -> None:
    keys: dict[str, MetadataValue] = {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 40.0,
        "rope.scaling.original_context_length": 4096,
        "rope.scaling.yarn_log_multiplier": 0.0707,
    }
    attention = latent(spec_of_gguf("deepseek2", {**SIZES, **OLDER, **keys}))
    mscale = 0.0707 * math.log(40) + 1
    assert attention.scale == pytest.approx(mscale * mscale / math.sqrt(192))
    scaling = attention.rope.scaling
    assert isinstance(scaling, YarnScaling) and scaling.attention_factor == 1.0


def test_heads_that_are_rotated_as_a_whole_are_corrupt() -> None:
    keys: dict[str, MetadataValue] = {**SIZES, **OLDER, "rope.dimension_count": 192}
    with pytest.raises(CorruptCheckpointError, match="192 of 192"):
        spec_of_gguf("deepseek2", keys)


def test_odd_rotations_are_refused() -> None:
    keys: dict[str, MetadataValue] = {**SIZES, **OLDER, "rope.dimension_count": 40}
    with pytest.raises(UnsupportedArchitectureError, match="40 dimensions"):
        spec_of_gguf("deepseek2", keys)


def test_layers_that_only_draft_are_left_out(tmp_path: Path) -> None:
    [case] = [case for case in CASES if case.name == "deepseek3"]
    file = case.write(tmp_path) / "model.safetensors"
    tensors = load_file(file)
    drafting = {
        "model.layers.2.eh_proj.weight": np.zeros((64, 128), np.float32),
        "model.layers.2.enorm.weight": np.zeros(64, np.float32),
        "model.layers.2.self_attn.kv_b_proj.weight": np.zeros((8, 8), np.float32),
        "model.layers.2.mlp.experts.0.up_proj.weight": np.zeros((8, 8), np.float32),
    }
    save_file({**tensors, **drafting}, file)
    compare(case, build(open_huggingface(tmp_path), tmp_path))


def test_a_layer_that_is_missing_is_named(tmp_path: Path) -> None:
    [case] = [case for case in CASES if case.name == "deepseek3"]
    config_file = case.write(tmp_path) / "config.json"
    config = json.loads(config_file.read_text())
    config_file.write_text(json.dumps({**config, "num_hidden_layers": 3}))
    with pytest.raises(CorruptCheckpointError, match=r"blk\.2\."):
        build(open_huggingface(tmp_path), tmp_path)


def test_a_correction_that_is_missing_is_named(tmp_path: Path) -> None:
    [case] = [case for case in CASES if case.name == "deepseek3"]
    file = case.write(tmp_path) / "model.safetensors"
    tensors = load_file(file)
    del tensors["model.layers.1.mlp.gate.e_score_correction_bias"]
    save_file(tensors, file)
    with pytest.raises(CorruptCheckpointError, match=r"blk\.1\.exp_probs_b\.bias"):
        build(open_huggingface(tmp_path), tmp_path)


def test_a_temperature_that_changes_is_refused() -> None:
    keys: dict[str, MetadataValue] = {**SIZES, **OLDER, "attention.temperature_scale": 0.1}
    with pytest.raises(UnsupportedArchitectureError, match="temperature"):
        spec_of_gguf("deepseek2", keys)


SIDE = 32


def _squares(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(-(-size // SIDE) for size in shape)


def test_float8_folders_give_the_logits_of_their_values(tmp_path: Path) -> None:
    """As DeepSeek published V3 and R1: linear layers in float8, with a scale for each square."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    [case] = [case for case in CASES if case.name == "deepseek3"]
    folder, plain = case.write(tmp_path / "float8"), case.write(tmp_path / "plain")
    packed: dict[str, TensorItem] = {}
    values = load_file(plain / "model.safetensors")
    for name, weight in list(values.items()):
        if "_proj" not in name or not name.endswith(".weight"):
            packed[name] = weight
            continue
        scales = 0.001 * (1 + np.random.default_rng(len(name)).random(_squares(weight.shape)))
        scales = scales.astype(np.float32)
        each = np.kron(scales, np.ones((SIDE, SIDE), np.float32))
        each = each[: weight.shape[0], : weight.shape[1]]
        codes = (weight / each).astype(ml_dtypes.float8_e4m3fn)
        packed[name] = RawTensor("F8_E4M3", weight.shape, codes.tobytes())
        packed[f"{name}_scale_inv"] = scales
        values[name] = codes.astype(np.float32) * each
    write_safetensors(folder / "model.safetensors", packed)
    save_file(values, plain / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    method = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [SIDE, SIDE]}
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": method}))
    found, wanted = (
        build(open_huggingface(path), path).one_by_one(case.prompt()) for path in (folder, plain)
    )
    np.testing.assert_allclose(found, wanted, atol=1e-5)
