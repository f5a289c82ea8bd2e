"""Attention in which each token sees those behind it too, but never the padding of its row."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mrs.errors import UnsupportedArchitectureError
from mrs.export.architectures.spec import AttentionSpec
from mrs.export.graph.builder import GraphBuilder, int64s
from mrs.export.graph.positions import RopeTables


def is_token(builder: GraphBuilder, input_ids: ir.Value, lengths: ir.Value) -> ir.Value:
    """Which positions hold a token and no padding, bool ``[batch, sequence]``.

    Args:
        builder: of the graph.
        input_ids: ``[batch, sequence]``.
        lengths: int32 ``[batch]``, tokens of each row.
    """

    def make() -> ir.Value:
        wide = builder.op("Cast", [lengths], "lengths.int64", {"to": ir.DataType.INT64})
        column = builder.op("Unsqueeze", [wide, builder.constant("axis_1", int64s(1))], "ends")
        return builder.op("Less", [places(builder, input_ids), column], "is_token")

    return builder.shared("is_token", make)


def attention_mask(
    builder: GraphBuilder, input_ids: ir.Value, lengths: ir.Value, window: int | None
) -> ir.Value:
    """Which token sees which, bool ``[batch, 1, sequence, sequence]``.

    Padding sees itself, so that what is computed there is finite.

    Args:
        builder: of the graph.
        input_ids: ``[batch, sequence]``.
        lengths: int32 ``[batch]``, tokens of each row.
        window: a token sees half as many on either side; None for all.
    """

    def make() -> ir.Value:
        name = "sees" if window is None else f"sees_{window}"
        tokens = is_token(builder, input_ids, lengths)
        axes = builder.constant("key_axes", int64s(1, 2))
        seen = builder.op("Unsqueeze", [tokens, axes], f"{name}.keys")
        distance = builder.shared("distance", lambda: _distance(builder, input_ids))
        if window is not None:
            reach = builder.constant(f"reach_{window}", np.array(window // 2, dtype=np.int64))
            near = builder.op("LessOrEqual", [distance, reach], f"{name}.near")
            seen = builder.op("And", [seen, near], f"{name}.near_keys")
        zero = builder.constant("first_place_in_row", np.array(0, dtype=np.int64))
        itself = builder.op("Equal", [distance, zero], f"{name}.itself")
        return builder.op("Or", [seen, itself], name)

    return builder.shared(("attention_mask", window), make)


def bidirectional_attention(
    builder: GraphBuilder,
    spec: AttentionSpec,
    block: str,
    qkv: tuple[ir.Value, ir.Value | None, ir.Value | None],
    mask: ir.Value,
    tables: RopeTables | None,
) -> ir.Value:
    """What `grouped_query_attention` is to causal attention; rows start at their first token.

    Args:
        builder: of the graph.
        spec: sizes.
        block: names of the layer.
        qkv: queries, keys and values, or all three packed in the first.
        mask: as `attention_mask` makes it.
        tables: cosines and sines, or none.

    Raises:
        UnsupportedArchitectureError: the heads have sinks.
    """
    if spec.sinks:
        raise UnsupportedArchitectureError(
            "Attention in both directions with sinks is not supported.",
            hint="Export a model of a supported family.",
        )
    query, key, value = qkv
    if key is None or value is None:
        query, key, value = _split(builder, spec, block, query)
    if tables is not None and spec.rope is not None:
        query = _rotated(builder, query, tables, spec.num_heads, f"{block}.query.rotated")
        key = _rotated(builder, key, tables, spec.num_kv_heads, f"{block}.key.rotated")
    heads = (spec.num_heads, spec.num_kv_heads)
    name = f"{block}.attended"
    return attend(builder, (query, key, value), mask, heads, spec.scale, spec.softcap, name)


def attend(
    builder: GraphBuilder,
    qkv: tuple[ir.Value, ir.Value, ir.Value],
    mask: ir.Value,
    heads: tuple[int, int],
    scale: float,
    softcap: float,
    name: str,
) -> ir.Value:
    """The operator itself, ``[batch, sequence, heads * size]``.

    ONNX's own, since it shares key heads between queries and is as fast as MultiHeadAttention
    where there is a mask.

    Args:
        builder: of the graph.
        qkv: queries, keys and values, ``[batch, sequence, heads * size]`` each.
        mask: as `attention_mask` makes it.
        heads: of queries, and of keys and values.
        scale: multiplies query-key products.
        softcap: bound of the scores; 0 for none.
        name: of the result.
    """
    attributes: dict[str, int | float] = {
        "q_num_heads": heads[0],
        "kv_num_heads": heads[1],
        "scale": float(scale),
    }
    if softcap:
        attributes["softcap"] = float(softcap)
    return builder.op("Attention", [*qkv, mask], name, attributes)


def places(builder: GraphBuilder, input_ids: ir.Value) -> ir.Value:
    """0, 1, 2, ... int64 ``[sequence]``."""

    def make() -> ir.Value:
        shape = builder.op("Shape", [input_ids], "row_length", {"start": 1, "end": 2})
        count = builder.op("Squeeze", [shape], "row_length.scalar")
        zero = builder.constant("first_place_in_row", np.array(0, dtype=np.int64))
        one = builder.constant("next_place_in_row", np.array(1, dtype=np.int64))
        return builder.op("Range", [zero, count, one], "places")

    return builder.shared("places", make)


def _distance(builder: GraphBuilder, input_ids: ir.Value) -> ir.Value:
    """How far apart two places are, int64 ``[sequence, sequence]``."""
    place = places(builder, input_ids)
    axis = builder.constant("axis_1", int64s(1))
    column = builder.op("Unsqueeze", [place, axis], "places.column")
    return builder.op("Abs", [builder.op("Sub", [place, column], "offsets")], "distance")


def _split(
    builder: GraphBuilder, spec: AttentionSpec, block: str, packed: ir.Value
) -> tuple[ir.Value, ir.Value, ir.Value]:
    query, key, value = (ir.Value(name=f"{block}.{part}") for part in ("query", "key", "value"))
    width, kv_width = spec.num_heads * spec.head_dim, spec.num_kv_heads * spec.head_dim
    name = f"qkv_sizes_{width}_{kv_width}"
    sizes = builder.constant(name, int64s(width, kv_width, kv_width))
    outputs = [query, key, value]
    builder.op("Split", [packed, sizes], f"{block}.qkv_split", {"axis": -1}, outputs=outputs)
    return query, key, value


def _rotated(
    builder: GraphBuilder, x: ir.Value, tables: RopeTables, heads: int, name: str
) -> ir.Value:
    """Queries or keys ``[batch, sequence, heads * size]``, turned by their place in the row."""
    start = builder.constant("first_place", int64s(0))
    rotated = 2 * int(tables[0].shape[1])  # type: ignore[index,arg-type]
    attributes = {"num_heads": heads, "rotary_embedding_dim": rotated, "interleaved": 0}
    return builder.contrib("RotaryEmbedding", [x, start, *tables], name, attributes)
