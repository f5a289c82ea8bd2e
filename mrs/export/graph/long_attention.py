"""Attention in both directions over long rows, without the square of their length in memory.

ONNX Runtime's MultiHeadAttention works on a few scores at a time (Dao et al., FlashAttention,
arXiv:2205.14135), but only without a mask. So the padding is in the product: queries get one more
dimension that is 1, and keys one that is 0 for tokens and hugely negative for padding. The scores
of tokens are exactly what they were, those of padding become 0 in the softmax.

Measured with 16 heads of 64 and 3000 tokens: 60 MB instead of 628, and 0.6 of the time. With 128
tokens it takes twice the time of the operator that has a mask.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mrs.export.graph.bidirectional_attention import is_token
from mrs.export.graph.builder import GraphBuilder, int64s

# Far below any score, and far from the end of float32.
_NEVER = -1e9


def attend_long(
    builder: GraphBuilder,
    qkv: tuple[ir.Value, ir.Value, ir.Value],
    input_ids: ir.Value,
    lengths: ir.Value,
    heads: int,
    head_dim: int,
    name: str,
) -> ir.Value:
    """The attended values, ``[batch, sequence, heads * head_dim]``.

    Args:
        builder: of the graph.
        qkv: queries, keys and values, ``[batch, sequence, heads * head_dim]`` each.
        input_ids: ``[batch, sequence]``.
        lengths: int32 ``[batch]``, tokens of each row.
        heads: how many, of each of the three.
        head_dim: size of one.
        name: of the result.
    """
    query, key, value = qkv
    shape = builder.constant(f"heads_{heads}x{head_dim}", int64s(0, 0, heads, head_dim))
    flat = builder.constant("flat_heads", int64s(0, 0, heads * (head_dim + 1)))
    by_head = [builder.op("Reshape", [part, shape], f"{part.name}.heads") for part in (query, key)]
    ends = builder.constant("one_more_dimension", int64s(0, 0, 0, 0, 0, 0, 0, 1))
    one = builder.constant("one.float32", np.array(1, dtype=np.float32))
    wider = [
        builder.op("Pad", [by_head[0], ends, one], f"{query.name}.wider"),
        builder.op(
            "Concat",
            [by_head[1], _visible(builder, input_ids, lengths, heads)],
            f"{key.name}.wider",
            {"axis": -1},
        ),
    ]
    query, key = (builder.op("Reshape", [part, flat], f"{part.name}.flat") for part in wider)
    attributes = {"num_heads": heads, "scale": float(head_dim**-0.5)}
    return builder.contrib("MultiHeadAttention", [query, key, value], name, attributes)


def _visible(builder: GraphBuilder, input_ids: ir.Value, lengths: ir.Value, heads: int) -> ir.Value:
    """0 for tokens, `_NEVER` for padding: float32 ``[batch, sequence, heads, 1]``."""

    def make() -> ir.Value:
        zero = builder.constant("seen", np.array(0, dtype=np.float32))
        never = builder.constant("never_seen", np.array(_NEVER, dtype=np.float32))
        tokens = is_token(builder, input_ids, lengths)
        seen = builder.op("Where", [tokens, zero, never], "visible")
        axes = builder.constant("head_axes", int64s(2, 3))
        one_head = builder.op("Unsqueeze", [seen, axes], "visible.one_head")
        repeats = builder.constant("each_head", int64s(1, 1, heads, 1))
        return builder.op("Tile", [one_head, repeats], "visible.heads")

    return builder.shared(("visible", heads), make)
