"""SmolLM3, OLMo 3, EXAONE 4 and Mistral as published: which layers rotate, which have windows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mrs.errors import CorruptCheckpointError
from mrs.export.architectures.spec import Llama3Scaling, YarnScaling
from tests.export.architectures.described import attentions, spec_of_config, spec_of_gguf

SIZES: dict[str, Any] = {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_attention_heads": 16,
    "num_hidden_layers": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 65_536,
    "rms_norm_eps": 1e-6,
}
SMOLLM3: dict[str, Any] = {
    **SIZES,
    "model_type": "smollm3",
    "layer_types": ["full_attention"] * 8,
    "max_window_layers": 28,
    "no_rope_layer_interval": 4,
    "rope_scaling": None,
    "rope_theta": 5_000_000.0,
    "sliding_window": None,
    "use_sliding_window": False,
}
OLMO3: dict[str, Any] = {
    **SIZES,
    "model_type": "olmo3",
    "rope_theta": 500_000,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 8.0,
        "attention_factor": 1.2079441541679836,
        "beta_fast": 32,
        "beta_slow": 1,
        "original_max_position_embeddings": 8192,
    },
}
EXAONE4: dict[str, Any] = {
    **SIZES,
    "model_type": "exaone4",
    "head_dim": 128,
    "rope_theta": 1_000_000,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 16.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"no_rope_layers": [1, 1, 1, 0] * 2}, [True, True, True, False] * 2),
        ({"no_rope_layers": [0, 1] * 4}, [False, True] * 4),
        ({"no_rope_layers": None}, [True, True, True, False] * 2),
        ({"no_rope_layer_interval": 2}, [True, False] * 4),
    ],
)
def test_which_layers_of_smollm3_rotate(
    tmp_path: Path, config: dict[str, Any], expected: list[bool]
) -> None:
    found = attentions(spec_of_config(tmp_path, {**SMOLLM3, **config}))
    assert [attention.rope is not None for attention in found] == expected
    assert {attention.window for attention in found} == {None}


def test_every_fourth_layer_of_smollm3_does_not_rotate_in_gguf_files() -> None:
    found = attentions(spec_of_gguf("smollm3", {}))
    assert [attention.rope is not None for attention in found] == [True, True, True, False] * 2


def test_olmo_3_scales_the_layers_without_windows(tmp_path: Path) -> None:
    found = attentions(spec_of_config(tmp_path, OLMO3))
    assert [attention.window for attention in found] == [4096, 4096, 4096, None] * 2
    local, everything = found[0].rope, found[3].rope
    assert local is not None and everything is not None
    assert (local.base, local.scaling) == (500_000.0, None)
    assert isinstance(everything.scaling, YarnScaling)
    assert everything.scaling.attention_factor == pytest.approx(1.2079441541679836)


def test_olmo_2_has_no_windows(tmp_path: Path) -> None:
    found = attentions(spec_of_config(tmp_path, {**SIZES, "model_type": "olmo2"}))
    assert {attention.window for attention in found} == {None}


def test_layers_of_exaone_4_without_a_window_do_not_rotate(tmp_path: Path) -> None:
    kinds = (["sliding_attention"] * 3 + ["full_attention"]) * 2
    windows = {"sliding_window": 4096, "sliding_window_pattern": "LLLG", "layer_types": kinds}
    found = attentions(spec_of_config(tmp_path, {**EXAONE4, **windows}))
    assert [attention.rope is None for attention in found] == [False, False, False, True] * 2
    assert [attention.window for attention in found] == [4096, 4096, 4096, None] * 2
    rope = found[0].rope
    assert rope is not None
    assert isinstance(rope.scaling, Llama3Scaling)


def test_exaone_4_without_windows_rotates_everywhere(tmp_path: Path) -> None:
    none = {"sliding_window": None, "sliding_window_pattern": None}
    found = attentions(spec_of_config(tmp_path, {**EXAONE4, **none}))
    assert all(attention.rope is not None for attention in found)


def test_a_bias_that_the_config_promises_is_missed(tmp_path: Path) -> None:
    config = {**SIZES, "model_type": "seed_oss", "head_dim": 128}
    with pytest.raises(CorruptCheckpointError, match=r"'blk\.0\.attn_q\.bias'; attention_bias"):
        spec_of_config(tmp_path, config)


@pytest.mark.parametrize(("stated", "window"), [({}, 4096), ({"sliding_window": None}, None)])
def test_mistral_has_a_window_unless_its_config_says_null(
    tmp_path: Path, stated: dict[str, Any], window: int | None
) -> None:
    config = {**SIZES, "model_type": "mistral", **stated}
    found = attentions(spec_of_config(tmp_path, config))
    assert {attention.window for attention in found} == {window}
