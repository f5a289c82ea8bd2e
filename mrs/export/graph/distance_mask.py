"""Attention scores corrected by the distance between two tokens (Shaw et al., arXiv:1803.02155, in
the classes of T5, arXiv:1910.10683): MPNet's relative attention."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mrs.export.graph.bidirectional_attention import attention_mask, places
from mrs.export.graph.builder import int64s
from mrs.export.graph.weights import Weights

# Distances from here on are one class.
_FARTHEST = 128
_NEVER = float(np.finfo(np.float32).min)


def distance_mask(
    weights: Weights, input_ids: ir.Value, lengths: ir.Value, heads: int, buckets: int
) -> ir.Value:
    """What is added to scores, float32 ``[batch, heads, sequence, sequence]``.

    Args:
        weights: of the checkpoint, with a table ``[buckets, heads]``.
        input_ids: ``[batch, sequence]``.
        lengths: int32 ``[batch]``, tokens of each row.
        heads: of the attention.
        buckets: classes of distance.
    """
    builder = weights.builder

    def make() -> ir.Value:
        table = weights.table("attn_rel_b.weight", (buckets, heads))
        by_distance = table[distance_classes(buckets)].T
        stored = builder.weight("distance.weight", np.ascontiguousarray(by_distance))
        place = places(builder, input_ids)
        axis = builder.constant("axis_1", int64s(1))
        column = builder.op("Unsqueeze", [place, axis], "distance.from")
        offset = builder.op("Sub", [place, column], "distance.offset")
        ends = [
            builder.constant(name, np.array(value, dtype=np.int64))
            for name, value in (("farthest_left", -_FARTHEST), ("farthest_right", _FARTHEST))
        ]
        clipped = builder.op("Clip", [offset, *ends], "distance.clipped")
        index = builder.op("Add", [clipped, ends[1]], "distance.index")
        bias = builder.op("Gather", [stored, index], "distance.bias", {"axis": 1})
        mask = attention_mask(builder, input_ids, lengths, None)
        never = builder.constant("never_added", np.array(_NEVER, dtype=np.float32))
        return builder.op("Where", [mask, bias, never], "distance.mask")

    return builder.shared("distance_mask", make)


def distance_classes(buckets: int) -> NDArray[np.int64]:
    """The class of each offset from ``-128`` to ``128`` (of the seen token from the seeing one).

    Half of the classes are for tokens ahead. Of each half, one half is for single distances, the
    rest for ranges that grow with their logarithm.
    """
    half = buckets // 2
    exact = half // 2
    offsets = np.arange(-_FARTHEST, _FARTHEST + 1)
    distance = np.abs(offsets)
    # In float32, as the models were trained: the ends of ranges are whole numbers.
    share = np.log(np.maximum(distance, 1).astype(np.float32) / np.float32(exact))
    share = share / np.float32(math.log(_FARTHEST / exact)) * np.float32(half - exact)
    far = np.minimum(exact + share.astype(np.int64), half - 1)
    return np.where(offsets > 0, half, 0) + np.where(distance < exact, distance, far)
