"""The decoder graph over a KV cache of 8-bit integers, on the same weights.

It differs from the float32 one in the types of the caches and in what each attention is given: a
scale for each channel of keys and of values. ONNX Runtime's ``GroupQueryAttention`` rounds what it
appends to ``round(x / scale)`` within -128 and 127. The graph names the scales and does not hold
them: they are measured, and processors differ in the last bits of what they measure.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

SCALES_FILE = "kv_scales.data"
"""Float32; layer by layer, keys before values, a scale for each channel of each head."""

_ATTENTION = "GroupQueryAttention"
_PAST, _SCALE = {"key": 3, "value": 4}, {"key": 12, "value": 13}
_TABLES = 7, 8
_ITEM_SIZE = 4


def use_int8_cache(model: ir.Model) -> None:
    """Make a float32 decoder graph one over 8-bit caches."""
    offset = 0
    attentions = (node for node in model.graph if node.op_type == _ATTENTION)
    for index, node in enumerate(attentions):
        heads, head_dim = _sizes(node)
        for which, past in _PAST.items():
            for value in (node.inputs[past], node.outputs[past - 2]):
                assert value is not None
                value.type = ir.TensorType(ir.DataType.INT8)
            scale = _scale(f"kv_scale.{index}.{which}", heads, head_dim, offset)
            offset += _ITEM_SIZE * heads * head_dim
            model.graph.initializers[str(scale.name)] = scale
            node.replace_input_with(_SCALE[which], scale)
        for which in "kv":
            node.attributes.add(ir.AttrString(f"{which}_quant_type", "PER_CHANNEL"))
        node.attributes.add(ir.AttrInt64("kv_cache_bit_width", 8))
    initializers = model.graph.initializers
    for name in sorted(initializers):  # As the builder has them.
        initializers[name] = initializers.pop(name)


def rotation_frequencies(graph: Path) -> list[NDArray[np.float64]]:
    """By what each layer's attention turns pairs of channels, in radians from token to token.

    Read from the tables of cosines and sines; empty for a layer that turns nothing.

    Args:
        graph: ``model.onnx``, its weights beside it.
    """
    nodes = [node for node in ir.load(graph).graph if node.op_type == _ATTENTION]
    return [_frequencies(node) for node in nodes]


def _frequencies(node: ir.Node) -> NDArray[np.float64]:
    if not node.attributes["do_rotary"].as_int():
        return np.empty(0)
    tables = [node.inputs[which] for which in _TABLES]
    values = [table.const_value for table in tables if table is not None]
    # The second token, as the first is turned by nothing; a context of one has no other.
    cosines, sines = (value.numpy()[:2][-1] for value in values if value is not None)
    angles: NDArray[np.float64] = np.arctan2(sines.astype(np.float64), cosines)
    return angles


def _sizes(node: ir.Node) -> tuple[int, int]:
    """Key heads and their size."""
    past = node.inputs[_PAST["key"]]
    assert past is not None and past.shape is not None
    heads, head_dim = past.shape[1], past.shape[3]
    assert isinstance(heads, int) and isinstance(head_dim, int)
    return heads, head_dim


def _scale(name: str, heads: int, head_dim: int, offset: int) -> ir.Value:
    """A scale for each channel, somewhere in the file of scales."""
    shape = ir.Shape((1, heads, 1, head_dim))
    tensor = ir.ExternalTensor(
        location=SCALES_FILE,
        offset=offset,
        length=_ITEM_SIZE * heads * head_dim,
        dtype=ir.DataType.FLOAT,
        shape=shape,
        name=name,
    )
    value = ir.Value(name=name, shape=shape, type=ir.TensorType(ir.DataType.FLOAT))
    value.const_value = tensor
    return value
