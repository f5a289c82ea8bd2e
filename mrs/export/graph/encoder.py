"""EncoderSpec and tensors -> the body of an embedding model or reranker like BERT."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from mrs.export.architectures.embedding_spec import EncoderSpec
from mrs.export.graph.bidirectional_attention import attend, attention_mask, places
from mrs.export.graph.builder import int64s
from mrs.export.graph.distance_mask import distance_mask
from mrs.export.graph.long_attention import attend_long
from mrs.export.graph.mlp import mlp
from mrs.export.graph.weights import Weights

Rows = tuple[ir.Value, ir.Value]
"""``input_ids`` and the tokens of each row."""

# Beyond, a row could need more memory for its scores than for all else.
_LONG_CONTEXT = 1024


def encoder(
    weights: Weights,
    spec: EncoderSpec,
    input_ids: ir.Value,
    lengths: ir.Value,
    on_layer: Callable[[], None],
    second_start: ir.Value | None = None,
) -> ir.Value:
    """The vector of each token, float32 ``[batch, sequence, hidden_size]``.

    Args:
        weights: of the checkpoint.
        spec: what the encoder is made of.
        input_ids: int64 ``[batch, sequence]``, padded on the right.
        lengths: int32 ``[batch]``, tokens of each row.
        on_layer: called after each layer.
        second_start: int32 ``[batch]``, where the second text of each row starts, if it has the
            second token type.

    Raises:
        CorruptCheckpointError: a tensor is missing or has another shape.
        UnsupportedTensorTypeError: a tensor's storage type cannot be read.
    """
    hidden = _embed(weights, spec, input_ids, second_start)
    for index in range(spec.num_layers):
        hidden = _block(weights, spec, f"blk.{index}", hidden, (input_ids, lengths))
        on_layer()
    return hidden


def _embed(
    weights: Weights, spec: EncoderSpec, input_ids: ir.Value, second_start: ir.Value | None
) -> ir.Value:
    builder = weights.builder
    rows = weights.rows("token_embd", (spec.vocab_size, spec.hidden_size))
    table = weights.store("embedding.weight", [rows], gathered=True)
    tokens = table.gather(builder, input_ids, "embedding")
    # As many rows as the batch is long: a text has the positions from the first on.
    end = builder.op("Shape", [input_ids], "positions_end", {"start": 1, "end": 2})
    start, axis = (builder.constant(f"axis_{value}", int64s(value)) for value in (0, 0))
    positions = builder.op("Slice", [_positions(weights, spec), start, end, axis], "positions")
    if second_start is not None:
        types = _types(weights, spec, input_ids, second_start)
        tokens = builder.op("Add", [tokens, types], "typed_embedding")
    return _norm_of_sum(weights, spec, tokens, positions, "token_embd_norm")


def _types(
    weights: Weights, spec: EncoderSpec, input_ids: ir.Value, second_start: ir.Value
) -> ir.Value:
    """What the token types add, ``[batch, sequence, hidden_size]``."""
    builder = weights.builder
    rows = weights.checkpoint.tensors["token_types.weight"].shape[0]
    table = weights.table("token_types.weight", (rows, spec.hidden_size))[:2]
    wide = builder.op("Cast", [second_start], "second_start.int64", {"to": ir.DataType.INT64})
    axis = builder.constant("axis_1", int64s(1))
    column = builder.op("Unsqueeze", [wide, axis], "second_start.column")
    second = builder.op("GreaterOrEqual", [places(builder, input_ids), column], "is_second")
    types = builder.op("Cast", [second], "token_types", {"to": ir.DataType.INT64})
    stored = builder.weight("token_type_embedding.weight", np.ascontiguousarray(table))
    return builder.op("Gather", [stored, types], "type_embedding")


def _positions(weights: Weights, spec: EncoderSpec) -> ir.Value:
    """The position table, with the token type added to each row if there is only one."""
    rows = weights.checkpoint.tensors["position_embd.weight"].shape[0]
    table = weights.table("position_embd.weight", (rows, spec.hidden_size))
    table = table[spec.first_position :][: spec.context_length]
    types = weights.checkpoint.tensors.get("token_types.weight")
    if types is not None and not spec.second_type:
        # A table of one row may be stored as a vector.
        shape = (types.shape[0], spec.hidden_size)
        if len(types.shape) == 1:
            table = table + weights.vector("token_types.weight", spec.hidden_size)
        else:
            table = table + weights.table("token_types.weight", shape)[0]
    return weights.builder.weight("position_embedding.weight", np.ascontiguousarray(table))


def _block(
    weights: Weights, spec: EncoderSpec, block: str, hidden: ir.Value, rows: Rows
) -> ir.Value:
    attended = _attention(weights, spec, block, hidden, rows)
    hidden = _norm_of_sum(weights, spec, hidden, attended, f"{block}.attn_output_norm")
    made = mlp(weights, spec.mlp, spec.hidden_size, block, hidden)
    return _norm_of_sum(weights, spec, hidden, made, f"{block}.layer_output_norm")


def _attention(
    weights: Weights, spec: EncoderSpec, block: str, hidden: ir.Value, rows: Rows
) -> ir.Value:
    builder, size = weights.builder, spec.hidden_size
    if f"{block}.attn_qkv.weight" in weights.checkpoint.tensors:
        parts = [weights.rows(f"{block}.attn_qkv", (3 * size, size))]
    else:
        parts = [weights.rows(f"{block}.attn_{letter}", (size, size)) for letter in "qkv"]
    packed = weights.linear(f"{block}.attn_qkv", hidden, parts)
    query, key, value = (ir.Value(name=f"{block}.{part}") for part in ("query", "key", "value"))
    thirds = {"axis": -1, "num_outputs": 3}
    builder.op("Split", [packed], f"{block}.qkv_split", thirds, outputs=[query, key, value])
    attended = _attend(weights, spec, (query, key, value), rows, f"{block}.attended")
    output = weights.rows(f"{block}.attn_output", (size, size))
    return weights.linear(f"{block}.attn_output", attended, [output])


def _attend(
    weights: Weights,
    spec: EncoderSpec,
    qkv: tuple[ir.Value, ir.Value, ir.Value],
    rows: Rows,
    name: str,
) -> ir.Value:
    builder, heads, head_dim = weights.builder, spec.num_heads, spec.head_dim
    if spec.distance_buckets:
        mask = distance_mask(weights, *rows, heads, spec.distance_buckets)
        return attend(builder, qkv, mask, (heads, heads), head_dim**-0.5, 0.0, name)
    if spec.context_length > _LONG_CONTEXT:
        return attend_long(builder, qkv, *rows, heads, head_dim, name)
    mask = attention_mask(builder, *rows, None)
    return attend(builder, qkv, mask, (heads, heads), head_dim**-0.5, 0.0, name)


def _norm_of_sum(
    weights: Weights, spec: EncoderSpec, x: ir.Value, delta: ir.Value, name: str
) -> ir.Value:
    """The layer norm of ``x + delta``, in one pass over the row."""
    vectors = [
        weights.builder.weight(f"{name}.{part}", weights.vector(f"{name}.{part}", spec.hidden_size))
        for part in ("weight", "bias")
    ]
    attributes = {"epsilon": spec.norm.epsilon}
    return weights.builder.contrib("SkipLayerNormalization", [x, delta, *vectors], name, attributes)
