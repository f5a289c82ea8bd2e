"""Grouped-query attention on a cache that is appended to in place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mrs.export.architectures.spec import AttentionSpec, DecoderSpec, RopeSpec
from mrs.export.graph.bidirectional_attention import attention_mask, bidirectional_attention
from mrs.export.graph.norm import head_norm
from mrs.export.graph.positions import RopeTables
from mrs.export.graph.rope import head_row_order
from mrs.export.graph.row_source import RowSource
from mrs.export.graph.weights import Weights


@dataclass(frozen=True)
class AttentionInputs:
    """What the attention of every layer shares.

    Attributes:
        input_ids: int64 ``[batch, sequence]``.
        query_seqlens: int32 ``[batch]``, new tokens of each row.
        seqlens_k: int32 ``[batch]``, tokens of each row after the step, minus 1.
        total_sequence_length: int32 scalar, an upper bound of the batch.
        tables: cosines and sines of each rotation.
    """

    input_ids: ir.Value
    query_seqlens: ir.Value
    seqlens_k: ir.Value
    total_sequence_length: ir.Value
    tables: Mapping[RopeSpec, RopeTables]


@dataclass(frozen=True)
class LayerCache:
    """One layer's cache as graph inputs (past) and outputs (present), on the same memory.

    Without a past, every row starts at its first token.
    """

    past_key: ir.Value | None
    past_value: ir.Value | None
    present_key: ir.Value
    present_value: ir.Value


def attention(
    weights: Weights,
    model: DecoderSpec,
    spec: AttentionSpec,
    block: str,
    x: ir.Value,
    inputs: AttentionInputs,
    cache: LayerCache,
) -> ir.Value:
    """Attention over the cache and the new tokens, with its output projection."""
    qkv = _query_key_value(weights, model, spec, block, x)
    tables = (None, None) if spec.rope is None else inputs.tables[spec.rope]
    if spec.causal:
        attended = grouped_query_attention(
            weights, spec, block, qkv, tables, inputs, cache, rotates=spec.rope is not None
        )
    else:
        lengths, builder = inputs.query_seqlens, weights.builder
        mask = attention_mask(builder, inputs.input_ids, lengths, spec.window)
        rotation = None if spec.rope is None else inputs.tables[spec.rope]
        attended = bidirectional_attention(builder, spec, block, qkv, mask, rotation)
    width = spec.num_heads * spec.head_dim
    output = weights.rows(f"{block}.attn_output", (model.hidden_size, width))
    return weights.linear(f"{block}.attn_output", attended, [output])


def grouped_query_attention(
    weights: Weights,
    spec: AttentionSpec,
    block: str,
    qkv: tuple[ir.Value, ir.Value | None, ir.Value | None],
    tables: tuple[ir.Value | None, ir.Value | None],
    inputs: AttentionInputs,
    cache: LayerCache,
    *,
    rotates: bool,
) -> ir.Value:
    """The operator itself, ``[batch, sequence, heads * head_dim]``.

    Args:
        weights: of the checkpoint.
        spec: sizes.
        block: names of the layer.
        qkv: queries, keys and values, or all three packed in the first.
        tables: cosines and sines, or none.
        inputs: what all layers share.
        cache: the layer's.
        rotates: whether the operator rotates queries and keys.
    """
    lengths = [inputs.seqlens_k, inputs.total_sequence_length, *tables]
    sinks = _sinks(weights, spec, block)
    # The operator takes lengths of queries with a past alone; without, `seqlens_k` says them too.
    queries = None if cache.past_key is None else inputs.query_seqlens
    # Positions, bias, scales and norms are not used; the lengths of the queries come last.
    rest = [None, None, sinks, None, None, None, None, queries]
    attributes: dict[str, int | float] = {
        "num_heads": spec.num_heads,
        "kv_num_heads": spec.num_kv_heads,
        "scale": float(spec.scale),
        "do_rotary": int(rotates),
    }
    if spec.softcap:
        attributes["softcap"] = float(spec.softcap)
    if spec.window is not None:
        attributes["local_window_size"] = spec.window
        if cache.past_key is not None:
            # The cache holds the window and some slack, and the operator drops what has left it.
            attributes["sliding_window_cache"] = 1
    return weights.builder.contrib(
        "GroupQueryAttention",
        [*qkv, cache.past_key, cache.past_value, *lengths, *rest],
        f"{block}.attention",
        attributes,
        outputs=[ir.Value(name=f"{block}.attended"), cache.present_key, cache.present_value],
    )


def _query_key_value(
    weights: Weights, model: DecoderSpec, spec: AttentionSpec, block: str, x: ir.Value
) -> tuple[ir.Value, ir.Value | None, ir.Value | None]:
    """Query, key and value in one product, the rows of each head in the order of the rotation."""
    parts = attention_projections(weights, model, spec, block)
    packed = weights.linear(f"{block}.attn_qkv", x, parts)
    if not spec.query_key_norm:
        return packed, None, None
    builder = weights.builder
    query, key, value = (ir.Value(name=f"{block}.{part}") for part in ("query", "key", "value"))
    width, kv_width = spec.num_heads * spec.head_dim, spec.num_kv_heads * spec.head_dim
    sizes = builder.constant(
        f"qkv_sizes_{width}_{kv_width}", np.array([width, kv_width, kv_width], dtype=np.int64)
    )
    builder.op(
        "Split", [packed, sizes], f"{block}.qkv_split", {"axis": -1}, outputs=[query, key, value]
    )
    normed = [
        head_norm(
            weights, part, f"{block}.attn_{letter}_norm", heads, spec.head_dim, model.norm,
            _order(spec, heads),
        )
        for part, letter, heads in ((query, "q", spec.num_heads), (key, "k", spec.num_kv_heads))
    ]  # fmt: skip
    return normed[0], normed[1], value


def attention_projections(
    weights: Weights, model: DecoderSpec, spec: AttentionSpec, block: str
) -> list[RowSource]:
    """The rows of queries, keys and values: as three matrices, or as one that holds all.

    Raises:
        CorruptCheckpointError: a tensor is missing or has another shape.
    """
    counts = {"q": spec.num_heads, "k": spec.num_kv_heads, "v": spec.num_kv_heads}
    if f"{block}.attn_qkv.weight" in weights.checkpoint.tensors:
        heads = sum(counts.values())
        rows = weights.rows(f"{block}.attn_qkv", (heads * spec.head_dim, model.hidden_size))
        return [replace(rows, order=_packed_order(spec))]
    return [
        replace(
            weights.rows(f"{block}.attn_{letter}", (heads * spec.head_dim, model.hidden_size)),
            order=None if letter == "v" else _order(spec, heads),
        )
        for letter, heads in counts.items()
    ]


def _order(spec: AttentionSpec, heads: int) -> NDArray[np.int64] | None:
    if spec.rope is None:
        # Rows of a layer without rotation are stored as in its neighbours; any order will do, as
        # long as queries and keys share it.
        return None
    return head_row_order(spec.rope.layout, heads, spec.head_dim, spec.rope.dims)


def _packed_order(spec: AttentionSpec) -> NDArray[np.int64] | None:
    """The rows of a matrix that holds queries, keys and values; None if they are as needed."""
    turned = _order(spec, spec.num_heads + spec.num_kv_heads)
    if turned is None and not spec.packed_by_group:
        return None
    rows = np.arange((spec.num_heads + 2 * spec.num_kv_heads) * spec.head_dim)
    if turned is not None:
        rows[: len(turned)] = turned
    return _ungrouped(spec)[rows] if spec.packed_by_group else rows


def _ungrouped(spec: AttentionSpec) -> NDArray[np.int64]:
    """All queries, all keys, all values, where each key head has its own three together."""
    groups, shared = spec.num_kv_heads, spec.num_heads // spec.num_kv_heads
    rows = np.arange(groups * (shared + 2) * spec.head_dim).reshape(groups, shared + 2, -1)
    parts = (rows[:, :shared], rows[:, shared], rows[:, shared + 1])
    return np.concatenate([part.reshape(-1) for part in parts])


def _sinks(weights: Weights, spec: AttentionSpec, block: str) -> ir.Value | None:
    if not spec.sinks:
        return None
    name = f"{block}.attn_sinks"
    return weights.builder.weight(name, weights.vector(f"{name}.weight", spec.num_heads))
