"""What configurations and metadata say of experts, as published models have it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mrs.errors import CorruptCheckpointError, UnsupportedArchitectureError
from mrs.export.architectures.expert_spec import MoeSpec, RouterKind, RouterSpec
from mrs.export.architectures.huggingface import open_huggingface
from mrs.export.architectures.spec import MlpSpec
from mrs.export.checkpoints.checkpoint import MetadataValue
from mrs.export.checkpoints.tensor_views import count_rows
from tests.export.architectures.described import spec_of_config, spec_of_gguf
from tests.reference.families import CASES

MIXTRAL_8X7B = {
    "model_type": "mixtral",
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 32768,
    "num_attention_heads": 32,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 2,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "rms_norm_eps": 1e-05,
    "rope_theta": 1000000.0,
    "router_aux_loss_coef": 0.02,
    "sliding_window": None,
}
QWEN3_30B_A3B = {
    "model_type": "qwen3_moe",
    "attention_bias": False,
    "decoder_sparse_step": 1,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "max_position_embeddings": 40960,
    "max_window_layers": 48,
    "mlp_only_layers": [],
    "moe_intermediate_size": 768,
    "norm_topk_prob": True,
    "num_attention_heads": 32,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 3,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000.0,
    "sliding_window": None,
    "use_sliding_window": False,
}
GRANITE_1B_A400M = {
    "model_type": "granitemoe",
    "hidden_size": 1024,
    "intermediate_size": 512,
    "max_position_embeddings": 4096,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 2,
    "num_local_experts": 32,
    "attention_multiplier": 0.015625,
    "embedding_multiplier": 12.0,
    "residual_multiplier": 0.22,
    "logits_scaling": 6.0,
    "rms_norm_eps": 1e-06,
}


def moe(folder: Path, config: dict[str, Any], layer: int = 0) -> MoeSpec:
    found = spec_of_config(folder, config).layers[layer].mlp
    assert isinstance(found, MoeSpec)
    return found


def router(**keys: MetadataValue) -> RouterSpec:
    """Of a GGUF file of DeepSeek's, its latent attention left aside."""
    usual: dict[str, MetadataValue] = {"expert_count": 8, "expert_used_count": 2}
    found = spec_of_gguf("qwen3moe", {**usual, **keys}).layers[0].mlp
    assert isinstance(found, MoeSpec)
    return found.router


def test_mixtral_8x7b(tmp_path: Path) -> None:
    assert moe(tmp_path, MIXTRAL_8X7B) == MoeSpec(
        experts=8, width=14336, router=RouterSpec(RouterKind.SOFTMAX, 2, True, jitter=0.01)
    )


def test_qwen3_30b_a3b(tmp_path: Path) -> None:
    found = moe(tmp_path, QWEN3_30B_A3B)
    assert (found.experts, found.width, found.router.used) == (128, 768, 8)
    assert found.router.normalize and found.shared_width is None


def test_granite_1b_a400m(tmp_path: Path) -> None:
    found = moe(tmp_path, GRANITE_1B_A400M)
    assert (found.experts, found.width, found.router.used) == (32, 512, 8)
    assert found.router.normalize


def test_layers_without_experts_are_those_that_the_configuration_names(tmp_path: Path) -> None:
    config = {**QWEN3_30B_A3B, "num_hidden_layers": 6, "decoder_sparse_step": 2}
    spec = spec_of_config(tmp_path, {**config, "mlp_only_layers": [3]})
    assert [isinstance(layer.mlp, MlpSpec) for layer in spec.layers] == [
        *(True, False, True, True, True, False)
    ]


def test_sliding_windows_of_qwen_with_experts_are_refused(tmp_path: Path) -> None:
    config = {**QWEN3_30B_A3B, "use_sliding_window": True, "sliding_window": 4096}
    with pytest.raises(UnsupportedArchitectureError, match="use_sliding_window is true"):
        spec_of_config(tmp_path, config)


def test_other_activations_of_experts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedArchitectureError, match="'gelu_tanh'"):
        spec_of_config(tmp_path, {**MIXTRAL_8X7B, "hidden_act": "gelu_new"})


def test_a_promise_of_biases_is_kept(tmp_path: Path) -> None:
    config = {**QWEN3_30B_A3B, "model_type": "qwen2_moe", "shared_expert_intermediate_size": 128}
    with pytest.raises(CorruptCheckpointError, match=r"blk\.0\.attn_q\.bias"):
        spec_of_config(tmp_path, config)


@pytest.mark.parametrize(
    ("keys", "kind"),
    [({}, RouterKind.SOFTMAX), ({"expert_gating_func": 2}, RouterKind.SIGMOID)],
)
def test_the_scores_of_a_gguf_file(keys: dict[str, MetadataValue], kind: RouterKind) -> None:
    assert router(**keys).kind is kind


def test_unknown_scores_are_refused() -> None:
    with pytest.raises(UnsupportedArchitectureError, match="the way 4"):
        router(expert_gating_func=4)


def test_a_group_is_as_good_as_its_best_or_its_two_best() -> None:
    groups: dict[str, MetadataValue] = {"expert_group_count": 4, "expert_group_used_count": 2}
    assert router(**groups).group_best == 1
    assert router(**groups, expert_gating_func=2).group_best == 2


@pytest.mark.parametrize(
    "keys",
    [
        {"expert_used_count": 9},
        {"expert_group_count": 3},
        {"expert_group_count": 4, "expert_group_used_count": 5},
        {"expert_group_count": 8, "expert_group_used_count": 1},
    ],
)
def test_a_choice_that_cannot_be_made_is_corrupt(keys: dict[str, MetadataValue]) -> None:
    with pytest.raises(CorruptCheckpointError, match="cannot be chosen"):
        router(**keys)


def test_the_sparse_mixer_finds_two() -> None:
    keys: dict[str, MetadataValue] = {"expert_count": 4, "expert_used_count": 3}
    with pytest.raises(UnsupportedArchitectureError, match="uses 3 experts"):
        spec_of_gguf("phimoe", {**keys, "attention.layer_norm_epsilon": 1e-5})


def test_factors_of_phi_3_5_moe_that_differ_are_refused(tmp_path: Path) -> None:
    scaling = {
        "type": "longrope",
        "long_factor": [1.0] * 16,
        "short_factor": [1.0] * 16,
        "long_mscale": 1.25,
        "short_mscale": 1.0,
        "original_max_position_embeddings": 4096,
    }
    config = {**MIXTRAL_8X7B, "model_type": "phimoe", "rope_scaling": scaling}
    with pytest.raises(UnsupportedArchitectureError, match=r"long_mscale is 1\.25"):
        spec_of_config(tmp_path, config)


def test_a_checkpoint_that_lacks_an_expert_names_it(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(MIXTRAL_8X7B))
    experts = {
        f"model.layers.0.block_sparse_moe.experts.{index}.w2.weight": np.zeros((2, 2), np.float32)
        for index in (0, 1, 3)
    }
    save_file(experts, tmp_path / "model.safetensors")
    with pytest.raises(CorruptCheckpointError, match=r"ffn_down_exps\.weight, number 2"):
        open_huggingface(tmp_path)


def test_experts_in_one_tensor_are_those_in_many(tmp_path: Path) -> None:
    """As transformers holds them in memory: gate and up of all experts, and down of all."""
    [case] = [case for case in CASES if case.name == "qwen3moe"]
    many, fused = case.write(tmp_path / "many"), case.write(tmp_path / "fused")
    tensors = load_file(fused / "model.safetensors")
    for layer in range(2):
        stem = f"model.layers.{layer}.mlp.experts"
        parts = {
            part: np.stack([tensors.pop(f"{stem}.{index}.{part}.weight") for index in range(6)])
            for part in ("gate_proj", "up_proj", "down_proj")
        }
        both = [parts["gate_proj"], parts["up_proj"]]
        tensors[f"{stem}.gate_up_proj"] = np.concatenate(both, axis=1)
        tensors[f"{stem}.down_proj"] = parts["down_proj"]
    save_file(tensors, fused / "model.safetensors")
    one, other = open_huggingface(many), open_huggingface(fused)
    assert one.tensors == other.tensors
    for name, info in one.tensors.items():
        rows = count_rows(info.shape)
        np.testing.assert_array_equal(
            one.read_rows(name, 0, rows), other.read_rows(name, 0, rows), err_msg=name
        )


def test_a_missing_bias_of_the_head_is_named(tmp_path: Path) -> None:
    config = {**MIXTRAL_8X7B, "model_type": "phimoe", "lm_head_bias": True}
    with pytest.raises(CorruptCheckpointError, match=r"output\.bias"):
        spec_of_config(tmp_path, config)
