"""Granite as published: its factors, and what their absence means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mrs.errors import CorruptCheckpointError
from tests.export.architectures.described import attentions, spec_of_config, spec_of_gguf

GRANITE_2B: dict[str, Any] = {
    "model_type": "granite",
    "attention_multiplier": 0.015625,
    "embedding_multiplier": 12.0,
    "residual_multiplier": 0.22,
    "logits_scaling": 8.0,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_attention_heads": 32,
    "num_hidden_layers": 40,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131_072,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10_000_000.0,
    "tie_word_embeddings": True,
}


def test_factors_come_from_the_config(tmp_path: Path) -> None:
    spec = spec_of_config(tmp_path, GRANITE_2B)
    assert attentions(spec)[0].scale == 0.015625
    assert (spec.embedding_scale, spec.residual_scale) == (12.0, 0.22)
    assert spec.logit_scale == 1 / 8


def test_factors_that_are_left_out_are_1(tmp_path: Path) -> None:
    config = {key: value for key, value in GRANITE_2B.items() if not _is_factor(key)}
    spec = spec_of_config(tmp_path, config)
    scales = (spec.embedding_scale, spec.residual_scale, spec.logit_scale)
    assert (*scales, attentions(spec)[0].scale) == (1.0, 1.0, 1.0, 1.0)


def test_a_gguf_file_without_an_attention_scale_has_that_of_the_head_size() -> None:
    spec = spec_of_gguf("granite", {"logit_scale": 8.0})
    assert attentions(spec)[0].scale == 256**-0.5


def test_a_gguf_file_without_the_factor_of_logits_is_refused() -> None:
    with pytest.raises(CorruptCheckpointError, match=r"granite\.logit_scale"):
        spec_of_gguf("granite", {})


def _is_factor(key: str) -> bool:
    return key.endswith("_multiplier") or key == "logits_scaling"
