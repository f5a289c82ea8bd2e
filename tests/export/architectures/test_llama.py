"""Metadata of the llama family -> DecoderSpec, and what is refused on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from mrs.export.architectures.llama import llama_spec
from mrs.export.architectures.spec import AttentionSpec, DecoderSpec, RopeLayout, RopeSpec
from tests.export.gguf_files import llama_metadata
from tests.export.memory_checkpoint import MemoryCheckpoint

EMBEDDING = np.zeros((1000, 64), dtype=np.float32)


def spec(
    values: Mapping[str, Any] = {},
    *,
    without: str = "",
    tensors: Mapping[str, Any] = {"token_embd.weight": EMBEDDING},
) -> DecoderSpec:
    """The spec of the tiny llama, some of its ``llama.`` keys replaced and one removed."""
    metadata = {**llama_metadata(), **{f"llama.{key}": value for key, value in values.items()}}
    metadata.pop(f"llama.{without}", None)
    return llama_spec(MemoryCheckpoint(tensors, metadata))  # type: ignore[arg-type]


def test_every_field() -> None:
    assert spec() == DecoderSpec(
        architecture="llama",
        hidden_size=64,
        intermediate_size=96,
        num_layers=2,
        vocab_size=1000,
        context_length=128,
        norm_epsilon=1e-5,
        attention=AttentionSpec(4, 2, 16, RopeSpec(10000.0, 16, RopeLayout.PAIRS)),
        tied_embeddings=True,
    )


def test_an_output_tensor_unties_the_head() -> None:
    tensors = {"token_embd.weight": EMBEDDING, "output.weight": EMBEDDING}
    assert not spec(tensors=tensors).tied_embeddings


def test_frequency_factors_are_taken_where_the_checkpoint_has_them() -> None:
    tensors = {"token_embd.weight": EMBEDDING, "rope_freqs.weight": np.ones(8, np.float32)}
    assert spec(tensors=tensors).attention.rope.factors == "rope_freqs.weight"


# --- defaults: those of llama.cpp -----------------------------------------------------------------


def test_without_kv_heads_every_query_head_has_its_own() -> None:
    assert spec(without="attention.head_count_kv").attention.num_kv_heads == 4


def test_without_a_key_length_heads_share_the_width() -> None:
    values = {"attention.head_count": 2, "attention.head_count_kv": 2}
    assert spec(values).attention.head_dim == 32


def test_a_key_length_need_not_follow_from_the_width() -> None:
    assert spec({"attention.key_length": 128}).attention.head_dim == 128


def test_without_a_dimension_count_the_whole_head_is_rotated() -> None:
    values = {"attention.key_length": 128}
    assert spec(values, without="rope.dimension_count").attention.rope.dims == 128


def test_without_a_base_it_is_ten_thousand() -> None:
    assert spec({"rope.freq_base": 5e5}).attention.rope.base == 5e5
    assert spec(without="rope.freq_base").attention.rope.base == 10000.0


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ({}, 1.0),
        ({"rope.scaling.type": "none", "rope.scaling.factor": 4.0}, 1.0),
        ({"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}, 4.0),
        ({"rope.scaling.type": "linear"}, 1.0),
        ({"rope.scaling.factor": 4.0}, 4.0),
        ({"rope.scaling.factor": 0.0}, 1.0),
        ({"rope.scale_linear": 2.0}, 2.0),
        ({"rope.scaling.factor": 4.0, "rope.scale_linear": 2.0}, 4.0),
    ],
    ids=str,
)
def test_positions_are_scaled_as_llama_cpp_scales_them(
    values: dict[str, Any], scale: float
) -> None:
    assert spec(values).attention.rope.scale == scale
