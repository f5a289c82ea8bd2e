"""Grouped-query attention on a cache that is appended to in place."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mrs.errors import CorruptCheckpointError
from mrs.export.architectures.spec import DecoderSpec
from mrs.export.graph.rope import Wave, head_row_order, rope_frequencies, rope_table
from mrs.export.graph.row_source import RowSource
from mrs.export.graph.weights import Weights


@dataclass(frozen=True)
class AttentionInputs:
    """What the attention of every layer shares.

    Attributes:
        query_seqlens: int32 ``[batch]``, new tokens of each row.
        seqlens_k: int32 ``[batch]``, tokens of each row after the step, minus 1.
        total_sequence_length: int32 scalar, an upper bound of the batch.
        cosines: float32 ``[positions, rotated / 2]``.
        sines: the same.
    """

    query_seqlens: ir.Value
    seqlens_k: ir.Value
    total_sequence_length: ir.Value
    cosines: ir.Value
    sines: ir.Value


@dataclass(frozen=True)
class LayerCache:
    """One layer's cache as graph inputs (past) and outputs (present), on the same memory."""

    past_key: ir.Value
    past_value: ir.Value
    present_key: ir.Value
    present_value: ir.Value


def rope_weights(weights: Weights, spec: DecoderSpec) -> tuple[ir.Value, ir.Value]:
    """The cosines and sines of every position of the context.

    Raises:
        CorruptCheckpointError: the tensors have another head size, or a factor is not above 0.
    """
    # Before anything is written whose size only the metadata tells.
    _projection(weights, spec, "blk.0", "k")
    frequencies = rope_frequencies(spec.attention.rope, _rope_factors(weights, spec))
    shape = (spec.context_length, len(frequencies))

    def table(name: str, wave: Wave) -> ir.Value:
        chunks = rope_table(wave, frequencies, spec.context_length)
        stored = weights.builder.weight_file.append(chunks, 4 * shape[0] * shape[1])
        return weights.builder.stored(stored, name, ir.DataType.FLOAT, shape)

    return table("rope.cos", np.cos), table("rope.sin", np.sin)


def _rope_factors(weights: Weights, spec: DecoderSpec) -> NDArray[np.float32] | None:
    rope = spec.attention.rope
    if rope.factors is None:
        return None
    factors = weights.vector(rope.factors, rope.dims // 2, stored_as="rotary table")
    if not np.all(factors > 0):
        raise CorruptCheckpointError(
            f"The tensor {rope.factors!r} holds {factors.min()}; frequencies are divided by it.",
            hint="Download the model again, or convert it with a current converter.",
        )
    return factors


def attention(
    weights: Weights,
    spec: DecoderSpec,
    block: str,
    x: ir.Value,
    inputs: AttentionInputs,
    cache: LayerCache,
) -> ir.Value:
    """Attention over the cache and the new tokens, with its output projection."""
    sizes = spec.attention
    qkv = _query_key_value(weights, spec, block, x)
    packed = [qkv, None, None, cache.past_key, cache.past_value]
    lengths = [inputs.seqlens_k, inputs.total_sequence_length, inputs.cosines, inputs.sines]
    # Positions, bias, sinks, scales and norms are not used; the lengths of the queries come last.
    attended = weights.builder.contrib(
        "GroupQueryAttention",
        [*packed, *lengths, *[None] * 7, inputs.query_seqlens],
        f"{block}.attention",
        {
            "num_heads": sizes.num_heads,
            "kv_num_heads": sizes.num_kv_heads,
            "scale": float(sizes.head_dim**-0.5),
            "do_rotary": 1,
        },
        outputs=[ir.Value(name=f"{block}.attended"), cache.present_key, cache.present_value],
    )
    width = sizes.num_heads * sizes.head_dim
    output = weights.rows(f"{block}.attn_output", (spec.hidden_size, width))
    return weights.linear(f"{block}.attn_output", attended, [output])


def _query_key_value(weights: Weights, spec: DecoderSpec, block: str, x: ir.Value) -> ir.Value:
    """Query, key and value in one product, the rows of each head in the order of the rotation."""
    parts = [_projection(weights, spec, block, letter) for letter in "qkv"]
    return weights.linear(f"{block}.attn_qkv", x, parts)


def _projection(weights: Weights, spec: DecoderSpec, block: str, letter: str) -> RowSource:
    """The query, key or value projection of a layer."""
    sizes, rope = spec.attention, spec.attention.rope
    heads = sizes.num_heads if letter == "q" else sizes.num_kv_heads
    shape = (heads * sizes.head_dim, spec.hidden_size)
    rows = weights.rows(f"{block}.attn_{letter}", shape)
    if letter == "v":
        return rows
    return replace(rows, order=head_row_order(rope.layout, heads, sizes.head_dim, rope.dims))
