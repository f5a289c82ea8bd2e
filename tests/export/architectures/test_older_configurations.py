"""Configurations as published models have them: old keys, nulls, and what they leave out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mrs.errors import CheckpointError, UnsupportedArchitectureError
from mrs.export.architectures.config_metadata import config_metadata
from mrs.export.architectures.registry import MODEL_TYPES
from mrs.export.checkpoints.hf_config import read_hf_config


def metadata(folder: Path, **config: Any) -> dict[str, Any]:
    """Under canonical keys without the family's name."""
    (folder / "config.json").write_text(json.dumps(config))
    read = read_hf_config(folder)
    family = MODEL_TYPES[read.model_type]
    assert family.huggingface is not None
    found = config_metadata(family.name, family.huggingface, read)
    return {key.removeprefix(f"{family.name}."): value for key, value in found.items()}


def test_phi_3_with_128k_calls_its_scaling_su(tmp_path: Path) -> None:
    """config.json of Phi-3-mini-128k-instruct."""
    found = metadata(
        tmp_path,
        model_type="phi3",
        hidden_size=3072,
        num_attention_heads=32,
        num_hidden_layers=32,
        max_position_embeddings=131072,
        original_max_position_embeddings=4096,
        rope_theta=10000.0,
        rope_scaling={"type": "su", "long_factor": [1.5] * 48, "short_factor": [1.0] * 48},
        sliding_window=262144,
    )
    assert found["rope.scaling.type"] == "longrope"
    assert found["rope.scaling.original_context_length"] == 4096
    # sqrt(1 + log 32 / log 4096), as microsoft's code has it
    assert found["rope.scaling.amplitude"] == pytest.approx(1.1902380714238083)
    assert found["attention.layer_norm_rms_epsilon"] == 1e-5


def test_phi_3_once_called_it_yarn(tmp_path: Path) -> None:
    scaling = {"type": "yarn", "long_factor": [1.5] * 48, "short_factor": [1.0] * 48}
    found = metadata(tmp_path, model_type="phi3", rope_scaling=scaling)
    assert found["rope.scaling.type"] == "longrope"


def test_phi_4_mini_rotates_three_quarters(tmp_path: Path) -> None:
    found = metadata(
        tmp_path,
        model_type="phi3",
        hidden_size=3072,
        num_attention_heads=24,
        partial_rotary_factor=0.75,
        rope_scaling={"type": "longrope", "long_factor": [1.0] * 48, "short_factor": [1.0] * 48},
    )
    assert found["rope.dimension_count"] == 96


def test_phi_2_names_its_rotation_outside(tmp_path: Path) -> None:
    found = metadata(
        tmp_path,
        model_type="phi",
        hidden_size=2560,
        num_attention_heads=32,
        num_key_value_heads=None,
        partial_rotary_factor=0.4,
        rope_scaling=None,
        rope_theta=10000.0,
        qk_layernorm=False,
    )
    assert found["rope.dimension_count"] == 32
    assert found["rope.scaling.type"] == "none"
    assert "attention.head_count_kv" not in found


def test_pythia_has_keys_of_its_own(tmp_path: Path) -> None:
    found = metadata(
        tmp_path,
        model_type="gpt_neox",
        hidden_size=2560,
        num_attention_heads=32,
        rotary_pct=0.25,
        rotary_emb_base=25000,
        hidden_act="gelu",
    )
    assert found["rope.dimension_count"] == 20
    assert found["rope.freq_base"] == 25000
    assert found["hidden_activation"] == "gelu"
    assert found["use_parallel_residual"] is True


def test_gpt_2_has_keys_of_its_own(tmp_path: Path) -> None:
    found = metadata(
        tmp_path,
        model_type="gpt2",
        n_embd=768,
        n_head=12,
        n_layer=12,
        n_positions=1024,
        n_ctx=1024,
        n_inner=None,
        activation_function="gelu_new",
    )
    assert found["embedding_length"] == 768
    assert found["attention.head_count"] == 12
    assert found["block_count"] == 12
    assert found["context_length"] == 1024
    assert "feed_forward_length" not in found


@pytest.mark.parametrize(
    ("config", "heads"),
    [
        ({"multi_query": True, "num_kv_heads": 71}, 1),  # Falcon 7B
        ({}, 1),
        ({"multi_query": False}, 71),
        ({"new_decoder_architecture": True, "num_kv_heads": 8}, 8),  # Falcon 40B
        ({"new_decoder_architecture": True, "num_kv_heads": None}, 71),
    ],
)
def test_falcon_tells_its_key_heads_in_three_ways(
    tmp_path: Path, config: dict[str, Any], heads: int
) -> None:
    found = metadata(
        tmp_path, model_type="falcon", hidden_size=4544, num_attention_heads=71, **config
    )
    assert found["attention.head_count_kv"] == heads


def test_command_r_was_trained_for_longer_than_the_usual_key_says(tmp_path: Path) -> None:
    found = metadata(
        tmp_path, model_type="cohere", max_position_embeddings=8192, model_max_length=131072
    )
    assert found["context_length"] == 131072
    assert found["logit_scale"] == 0.0625
    assert found["rope.freq_base"] == 500000.0


def test_command_r7b_has_a_window_and_its_own_layers_without(tmp_path: Path) -> None:
    found = metadata(tmp_path, model_type="cohere2", sliding_window_pattern=4, logit_scale=0.25)
    assert found["attention.sliding_window"] == 4096
    assert found["attention.sliding_window_pattern"] == 4


def test_a_number_of_layers_that_no_model_has_is_refused_at_once(tmp_path: Path) -> None:
    """Lists of them would be made before any tensor is looked for."""
    with pytest.raises(CheckpointError, match="num_hidden_layers is 2000000000, not a"):
        metadata(
            tmp_path,
            model_type="qwen2",
            num_hidden_layers=2_000_000_000,
            use_sliding_window=True,
            sliding_window=16,
            max_window_layers=4,
        )


def test_falcon_with_alibi_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedArchitectureError, match="alibi is true; mrs exports"):
        metadata(tmp_path, model_type="falcon", num_attention_heads=64, alibi=True)
