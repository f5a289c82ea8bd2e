"""The vectors of a text's tokens -> one vector or score: pooling, linear layers, normalisation."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mrs.export.architectures.embedding_spec import DenseSpec, EmbeddingHead, Pooling
from mrs.export.graph.bidirectional_attention import is_token
from mrs.export.graph.builder import GraphBuilder, int64s
from mrs.export.graph.mlp import activate
from mrs.export.graph.weights import Weights

_LOWEST = float(np.finfo(np.float32).min)


def pool(
    builder: GraphBuilder,
    pooling: Pooling,
    hidden: ir.Value,
    input_ids: ir.Value,
    lengths: ir.Value,
) -> ir.Value:
    """One vector for each row, float32 ``[batch, hidden_size]``.

    Args:
        builder: of the graph.
        pooling: which.
        hidden: ``[batch, sequence, hidden_size]``; what it holds for padding does not matter.
        input_ids: ``[batch, sequence]``.
        lengths: int32 ``[batch]``, tokens of each row.
    """
    match pooling:
        case Pooling.CLS:
            first = builder.constant("first_token", np.array(0, dtype=np.int64))
            return builder.op("Gather", [hidden, first], "pooled", {"axis": 1})
        case Pooling.LAST:
            return _last(builder, hidden, lengths)
        case Pooling.MEAN:
            return _mean(builder, hidden, input_ids, lengths)
        case Pooling.MAX:
            tokens = _of_tokens(builder, hidden, input_ids, lengths, _LOWEST)
            axis = builder.constant("token_axis", int64s(1))
            return builder.op("ReduceMax", [tokens, axis], "pooled", {"keepdims": 0})


def finish(weights: Weights, head: EmbeddingHead, pooled: ir.Value) -> ir.Value:
    """The pooled vectors after the linear layers, normalised if the model does so.

    Of a reranker, the score of each row, float32 ``[batch]``.
    """
    if head.score is not None:
        *inner, last = head.dense
        for index, dense in enumerate(inner):
            pooled = _dense(weights, dense, pooled, f"dense.{index}")
        return _score(weights, last, pooled)
    for index, dense in enumerate(head.dense):
        pooled = _dense(weights, dense, pooled, f"dense.{index}")
    if not head.normalize:
        return pooled
    return weights.builder.op("LpNormalization", [pooled], "normalized", {"axis": -1, "p": 2})


def _dense(weights: Weights, spec: DenseSpec, x: ir.Value, name: str) -> ir.Value:
    x.shape, x.type = ir.Shape(("batch", spec.inputs)), ir.TensorType(ir.DataType.FLOAT)
    rows = weights.rows(spec.tensor, (spec.outputs, spec.inputs))
    product = weights.linear(name, x, [rows])
    if spec.activation is None:
        return product
    return activate(weights.builder, spec.activation, product, f"{name}.activated")


def _score(weights: Weights, spec: DenseSpec, x: ir.Value) -> ir.Value:
    """The one value of the last layer. It is as small as a bias, so it stays float32."""
    builder, name = weights.builder, f"{spec.tensor}.weight"
    # A matrix of one row may be stored as a vector.
    if len(weights.checkpoint.tensors[name].shape) == 1:
        row = weights.vector(name, spec.inputs)
    else:
        row = weights.table(name, (1, spec.inputs))[0]
    bias = weights.vector(f"{spec.tensor}.bias", 1)
    product = builder.op("MatMul", [x, builder.weight("score.weight", row)], "score.product")
    return builder.op("Add", [product, builder.weight("score.bias", bias)], "score.biased")


def _last(builder: GraphBuilder, hidden: ir.Value, lengths: ir.Value) -> ir.Value:
    wide = builder.op("Cast", [lengths], "last_token.end", {"to": ir.DataType.INT64})
    one = builder.constant("next_place_in_row", np.array(1, dtype=np.int64))
    last = builder.op("Sub", [wide, one], "last_token")
    axis = builder.constant("axis_1", int64s(1))
    column = builder.op("Unsqueeze", [last, axis], "last_token.column")
    return builder.op("GatherND", [hidden, column], "pooled", {"batch_dims": 1})


def _mean(
    builder: GraphBuilder, hidden: ir.Value, input_ids: ir.Value, lengths: ir.Value
) -> ir.Value:
    tokens = _of_tokens(builder, hidden, input_ids, lengths, 0.0)
    axis = builder.constant("token_axis", int64s(1))
    total = builder.op("ReduceSum", [tokens, axis], "total", {"keepdims": 0})
    counts = builder.op("Cast", [lengths], "token_counts", {"to": ir.DataType.FLOAT})
    column = builder.op(
        "Unsqueeze", [counts, builder.constant("axis_1", int64s(1))], "token_counts.column"
    )
    return builder.op("Div", [total, column], "pooled")


def _of_tokens(
    builder: GraphBuilder,
    hidden: ir.Value,
    input_ids: ir.Value,
    lengths: ir.Value,
    otherwise: float,
) -> ir.Value:
    """``hidden`` with another value in place of the padding."""
    last = builder.constant("last_axis", int64s(-1))
    column = builder.op(
        "Unsqueeze", [is_token(builder, input_ids, lengths), last], "is_token.column"
    )
    value = builder.constant("not_pooled", np.array(otherwise, dtype=np.float32))
    return builder.op("Where", [column, hidden, value], "hidden_of_tokens")
