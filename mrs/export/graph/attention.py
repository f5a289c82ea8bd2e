"""Grouped-query attention on a cache that is appended to in place."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from mrs.export.architectures.spec import DecoderSpec
from mrs.export.graph.rope import head_row_order, rope_tables
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
    """The rotary tables for every position of the context."""
    rope = spec.attention.rope
    factors = None
    if rope.factors is not None:
        factors = weights.vector(rope.factors, rope.dims // 2, stored_as="rotary table")
    cosines, sines = rope_tables(rope, spec.context_length, factors)
    builder = weights.builder
    return builder.weight("rope.cos", cosines), builder.weight("rope.sin", sines)


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
    sizes, rope = spec.attention, spec.attention.rope
    parts = []
    for letter, heads in (
        ("q", sizes.num_heads),
        ("k", sizes.num_kv_heads),
        ("v", sizes.num_kv_heads),
    ):
        rotated = rope.dims if letter in "qk" else 0
        order = head_row_order(rope.layout, heads, sizes.head_dim, rotated) if rotated else None
        shape = (heads * sizes.head_dim, spec.hidden_size)
        parts.append(weights.rows(f"{block}.attn_{letter}", shape, order))
    return weights.linear(f"{block}.attn_qkv", x, parts)
