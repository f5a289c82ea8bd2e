"""Metadata of the llama family -> DecoderSpec, and what is refused on the way."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from mrs.errors import CorruptCheckpointError, UnsupportedArchitectureError
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
    return llama_spec(MemoryCheckpoint(tensors, metadata))


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


# --- what is refused ------------------------------------------------------------------------------

SIZES = (
    *("block_count", "context_length", "embedding_length", "feed_forward_length"),
    *("attention.head_count", "attention.head_count_kv", "attention.key_length"),
    "rope.dimension_count",
)
NUMBERS = ("attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.scaling.factor")


@pytest.mark.parametrize(
    "key",
    [
        *("block_count", "context_length", "embedding_length", "feed_forward_length"),
        *("attention.head_count", "attention.layer_norm_rms_epsilon"),
    ],
)
def test_a_missing_key_is_named(key: str) -> None:
    with pytest.raises(CorruptCheckpointError, match=rf"lacks the metadata key llama\.{key}\.$"):
        spec(without=key)


@pytest.mark.parametrize("value", [2.0, "2", True, [2, 2]], ids=repr)
@pytest.mark.parametrize("key", SIZES)
def test_a_size_must_be_a_whole_number(key: str, value: object) -> None:
    with pytest.raises(CorruptCheckpointError, match=rf"llama\.{key} is .*; it must be a whole"):
        spec({key: value})


@pytest.mark.parametrize("value", [0, -16, 1 << 29, 1 << 63])
@pytest.mark.parametrize("key", SIZES)
def test_a_size_must_be_above_zero_and_not_huge(key: str, value: int) -> None:
    with pytest.raises(CorruptCheckpointError, match=rf"llama\.{key} is {value}; it must be betw"):
        spec({key: value})


def test_a_context_whose_rotary_tables_would_fill_disks_is_refused() -> None:
    assert spec({"context_length": 1 << 22}).context_length == 4194304
    with pytest.raises(
        CorruptCheckpointError, match=r"context_length is 4194305; .* 1 and 4194304"
    ):
        spec({"context_length": (1 << 22) + 1})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0, 1e-40, 1e40, 10**40])
@pytest.mark.parametrize("key", NUMBERS)
def test_a_number_must_be_positive_and_of_usual_size(key: str, value: float) -> None:
    with pytest.raises(CorruptCheckpointError, match=rf"llama\.{key} is .*; it must be between 1e"):
        spec({key: value})


@pytest.mark.parametrize("key", ["attention.layer_norm_rms_epsilon", "rope.freq_base"])
def test_a_number_that_is_divided_by_must_not_be_zero(key: str) -> None:
    with pytest.raises(CorruptCheckpointError, match=rf"llama\.{key} is 0\.0; it must be between"):
        spec({key: 0.0})


@pytest.mark.parametrize("value", ["1", True, [1.0]], ids=repr)
@pytest.mark.parametrize("key", NUMBERS)
def test_a_number_must_be_a_number(key: str, value: object) -> None:
    with pytest.raises(CorruptCheckpointError, match=rf"llama\.{key} is .*; it must be a number"):
        spec({key: value})


def test_a_scaling_type_must_be_a_string() -> None:
    with pytest.raises(CorruptCheckpointError, match=r"llama\.rope\.scaling\.type is 1; .* string"):
        spec({"rope.scaling.type": 1})


def test_a_huge_value_is_shown_in_part() -> None:
    with pytest.raises(CorruptCheckpointError) as caught:
        spec({"block_count": "9" * 1_000_000})
    assert len(caught.value.message) < 200


def test_query_heads_must_divide_by_the_others() -> None:
    with pytest.raises(CorruptCheckpointError, match=r"4 query heads .* 3 key/value heads"):
        spec({"attention.head_count_kv": 3})


@pytest.mark.parametrize("shape", [None, (64,), (10, 10, 64)], ids=str)
def test_the_embedding_must_be_a_matrix(shape: tuple[int, ...] | None) -> None:
    tensors = {} if shape is None else {"token_embd.weight": np.zeros(shape, np.float32)}
    with pytest.raises(CorruptCheckpointError, match=r"lacks the matrix token_embd\.weight"):
        spec(tensors=tensors)


def test_experts_are_refused() -> None:
    assert spec({"expert_count": 0}) == spec()
    with pytest.raises(UnsupportedArchitectureError, match="has 8 experts"):
        spec({"expert_count": 8})


def test_an_encoder_is_refused() -> None:
    assert spec({"attention.causal": True}) == spec()
    with pytest.raises(UnsupportedArchitectureError, match="in both directions"):
        spec({"attention.causal": False})


@pytest.mark.parametrize("scaling", ["yarn", "longrope", "dynamic"])
def test_other_scalings_are_refused(scaling: str) -> None:
    with pytest.raises(
        UnsupportedArchitectureError, match=f"{scaling!r} is not supported; .*linear"
    ):
        spec({"rope.scaling.type": scaling, "rope.scaling.factor": 4.0})


@pytest.mark.parametrize("head_dim", [1, 20, 100])
def test_head_sizes_that_onnx_runtime_cannot_do_are_refused(head_dim: int) -> None:
    with pytest.raises(UnsupportedArchitectureError, match=f"head size is {head_dim}; .* of 8"):
        spec({"attention.key_length": head_dim})


def test_more_heads_than_width_leave_no_head_size() -> None:
    with pytest.raises(UnsupportedArchitectureError, match="head size is 1;"):
        spec({"attention.head_count": 128, "attention.head_count_kv": 128})


@pytest.mark.parametrize(("rotated", "head_dim"), [(8, 16), (24, 32), (32, 16)])
def test_rotary_sizes_that_onnx_runtime_cannot_do_are_refused(rotated: int, head_dim: int) -> None:
    with pytest.raises(UnsupportedArchitectureError, match=f"{rotated} of {head_dim} dimensions"):
        spec({"rope.dimension_count": rotated, "attention.key_length": head_dim})


def test_part_of_a_head_may_be_rotated() -> None:
    values = {"rope.dimension_count": 16, "attention.key_length": 64}
    assert spec(values).attention.rope.dims == 16
