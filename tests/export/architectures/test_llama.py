"""Metadata of the llama family -> DecoderSpec, and what is refused on the way."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from mrs.errors import CorruptCheckpointError, UnsupportedArchitectureError
from mrs.export.architectures.registry import decoder_spec
from mrs.export.architectures.spec import (
    Activation,
    AttentionSpec,
    DecoderSpec,
    FactorsScaling,
    LayerSpec,
    LinearScaling,
    MlpSpec,
    NormKind,
    NormSpec,
    RopeLayout,
    RopeSpec,
    YarnScaling,
)
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
    return decoder_spec(MemoryCheckpoint(tensors, metadata))


def attention(*args: Any, **kwargs: Any) -> AttentionSpec:
    """The attention of the first layer of `spec`."""
    found = spec(*args, **kwargs).layers[0].attention
    assert isinstance(found, AttentionSpec)
    return found


def rope(*args: Any, **kwargs: Any) -> RopeSpec:
    """The rotation of the first layer of `spec`."""
    found = attention(*args, **kwargs).rope
    assert found is not None
    return found


def test_every_field() -> None:
    layer = LayerSpec(
        AttentionSpec(4, 2, 16, RopeSpec(10000.0, 16, RopeLayout.PAIRS), scale=0.25),
        MlpSpec(96, Activation.SILU),
    )
    assert spec() == DecoderSpec(
        architecture="llama",
        hidden_size=64,
        vocab_size=1000,
        context_length=128,
        norm=NormSpec(NormKind.RMS, 1e-5),
        layers=(layer, layer),
        tied_embeddings=True,
    )


def test_an_output_tensor_unties_the_head() -> None:
    tensors = {"token_embd.weight": EMBEDDING, "output.weight": EMBEDDING}
    assert not spec(tensors=tensors).tied_embeddings


def test_frequency_factors_are_taken_where_the_checkpoint_has_them() -> None:
    tensors = {"token_embd.weight": EMBEDDING, "rope_freqs.weight": np.ones(8, np.float32)}
    assert rope(tensors=tensors).scaling == FactorsScaling("rope_freqs.weight")


# --- defaults: those of llama.cpp -----------------------------------------------------------------


def test_without_kv_heads_every_query_head_has_its_own() -> None:
    assert attention(without="attention.head_count_kv").num_kv_heads == 4


def test_without_a_key_length_heads_share_the_width() -> None:
    values = {"attention.head_count": 2, "attention.head_count_kv": 2}
    assert attention(values).head_dim == 32


def test_a_key_length_need_not_follow_from_the_width() -> None:
    assert attention({"attention.key_length": 128}).head_dim == 128


def test_without_a_dimension_count_the_whole_head_is_rotated() -> None:
    values = {"attention.key_length": 128}
    assert rope(values, without="rope.dimension_count").dims == 128


def test_without_a_base_it_is_ten_thousand() -> None:
    assert rope({"rope.freq_base": 5e5}).base == 5e5
    assert rope(without="rope.freq_base").base == 10000.0


@pytest.mark.parametrize(
    ("values", "factor"),
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
    values: dict[str, Any], factor: float
) -> None:
    expected = None if factor == 1.0 else LinearScaling(factor)
    assert rope(values).scaling == expected


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


def test_a_number_of_layers_that_no_model_has_is_refused_at_once() -> None:
    with pytest.raises(CorruptCheckpointError, match=r"block_count is 1025; .* 1 and 1024"):
        spec({"block_count": 1025})


@pytest.mark.parametrize("drafting", [1, 2, 1 << 27])
def test_layers_that_draft_leave_at_least_one_that_does_not(drafting: int) -> None:
    assert spec({"nextn_predict_layers": drafting}).num_layers == 1


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


def test_an_encoder_is_refused() -> None:
    assert spec({"attention.causal": True}) == spec()
    with pytest.raises(UnsupportedArchitectureError, match="in both directions"):
        spec({"attention.causal": False})


def test_yarn_is_read_as_llama_cpp_reads_it() -> None:
    keys = {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": 32,
    }
    expected = YarnScaling(4.0, 32, 32.0, 1.0, attention_factor=0.1 * math.log(4.0) + 1)
    assert rope(keys).scaling == expected


def test_other_scalings_are_refused() -> None:
    with pytest.raises(UnsupportedArchitectureError, match=r"'mrope' is not supported; .*linear"):
        spec({"rope.scaling.type": "mrope", "rope.scaling.factor": 4.0})


@pytest.mark.parametrize("head_dim", [1, 20, 24, 100])
def test_head_sizes_that_onnx_runtime_cannot_do_are_refused(head_dim: int) -> None:
    with pytest.raises(UnsupportedArchitectureError, match=f"head size is {head_dim}; .* of 16"):
        spec({"attention.key_length": head_dim})


def test_more_heads_than_width_leave_no_head_size() -> None:
    with pytest.raises(UnsupportedArchitectureError, match="head size is 1;"):
        spec({"attention.head_count": 128, "attention.head_count_kv": 128})


@pytest.mark.parametrize(("rotated", "head_dim"), [(18, 16), (15, 16), (32, 16)])
def test_rotary_sizes_that_onnx_runtime_cannot_do_are_refused(rotated: int, head_dim: int) -> None:
    with pytest.raises(UnsupportedArchitectureError, match=f"{rotated} of {head_dim} dimensions"):
        spec({"rope.dimension_count": rotated, "attention.key_length": head_dim})


def test_part_of_a_head_may_be_rotated() -> None:
    values = {"rope.dimension_count": 16, "attention.key_length": 64}
    assert rope(values).dims == 16
