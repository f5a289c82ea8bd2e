"""The matrices of a mixture of experts, multiplied by QMoE or, in float32, by MoE.

Both operators take the matrices of all experts stacked, gate and up with their rows in turn. QMoE
has one block size and one width of codes for all projections, and no offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mrs.export.graph.block_matrix import BlockLayout
from mrs.export.graph.builder import GraphBuilder, int64s
from mrs.export.graph.stored_matrix import StoredPart
from mrs.export.quantization.bit_packing import pack_codes, packed_size
from mrs.export.quantization.blocks import QuantizedBlocks, zero_point_middle

Biases = tuple[NDArray[np.float32] | None, NDArray[np.float32] | None]
"""Of gate and up with their rows in turn, and of down; each float32 ``[experts, rows]`` or None."""

_NOT_CHOSEN = np.float32(-1e30)


@dataclass(frozen=True)
class Projection:
    """The stacked matrices ``[experts, rows, columns]`` of one projection of all experts.

    Attributes:
        weights: codes, or float32 values.
        bits: width of the codes; 0 for float32.
        scales: of the codes' blocks.
        zero_points: of the codes' blocks; None where all are in the middle.
        bias: float32 ``[experts, rows]``, or None.
    """

    weights: ir.Value
    bits: int = 0
    scales: ir.Value | None = None
    zero_points: ir.Value | None = None
    bias: ir.Value | None = None


@dataclass(frozen=True)
class StoredExperts:
    """The experts of one layer, in the weight file.

    Attributes:
        inner: gate and up with their rows in turn, or up alone.
        down: back to the hidden size.
        gated: whether ``inner`` has a gate.
        block_size: of both; 0 for float32.
    """

    inner: Projection
    down: Projection
    gated: bool
    block_size: int

    def mix(
        self,
        builder: GraphBuilder,
        x: ir.Value,
        router: ir.Value,
        name: str,
        top_k: int,
        *,
        normalize: bool,
        mixing: ir.Value | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> ir.Value:
        """The weighted sum of what the chosen experts make of ``x``.

        Args:
            builder: of the graph.
            x: float32 ``[tokens, hidden]``.
            router: float32 ``[tokens, experts]``; each token's ``top_k`` largest are chosen.
            name: of the result, float32 ``[tokens, hidden]``.
            top_k: experts for each token.
            normalize: whether the weights of the chosen experts are divided by their sum.
            mixing: float32 ``[tokens, experts]``, the weights of the chosen experts; by default
                the softmax of ``router`` over all experts.
            attributes: of the activation: ``activation_type`` (by default ``swiglu``, with alpha
                1 and beta 0), ``activation_alpha``, ``activation_beta``, ``swiglu_limit``.
        """
        activation = {"activation_type": "swiglu", "activation_alpha": 1.0, "activation_beta": 0.0}
        shared = {
            **(activation | {"swiglu_fusion": 1} if self.gated else {}),
            **(attributes or {}),
            "k": top_k,
            "normalize_routing_weights": int(normalize),
        }
        if not self.block_size:
            return self._float(builder, x, router, mixing, name, shared)
        if mixing is None and not normalize:
            # Of its own the operator takes the softmax over the chosen experts alone.
            mixing = builder.op("Softmax", [router], f"{name}.softmax", {"axis": -1})
        inner, down = self.inner, self.down
        inputs = [x, router, inner.weights, inner.scales, inner.bias]
        inputs += [down.weights, down.scales, down.bias, None, None, None]
        inputs += [inner.zero_points, down.zero_points, None, mixing]
        quantized = {
            "expert_weight_bits": inner.bits,
            "block_size": self.block_size,
            "weights_prepacked": 0,
            "accuracy_level": 4,
        }
        return builder.contrib("QMoE", _without_end(inputs), name, shared | quantized)

    def _float(
        self,
        builder: GraphBuilder,
        x: ir.Value,
        router: ir.Value,
        mixing: ir.Value | None,
        name: str,
        attributes: Mapping[str, Any],
    ) -> ir.Value:
        """MoE knows only the softmax of its router: other weights are given as logarithms."""
        weights = [self.inner.weights, self.inner.bias, self.down.weights, self.down.bias]
        if mixing is None:
            return builder.contrib("MoE", _without_end([x, router, *weights]), name, attributes)
        chosen, total = _log_weights(builder, router, mixing, int(attributes["k"]), name)
        inputs = _without_end([x, chosen, *weights])
        normalized = {**attributes, "normalize_routing_weights": 1}
        if attributes["normalize_routing_weights"]:
            return builder.contrib("MoE", inputs, name, normalized)
        mixed = builder.contrib("MoE", inputs, f"{name}.normalized", normalized)
        return builder.op("Mul", [mixed, total], name)


def _log_weights(
    builder: GraphBuilder, router: ir.Value, mixing: ir.Value, top_k: int, name: str
) -> tuple[ir.Value, ir.Value]:
    """The logarithm of the weight of each chosen expert and next to nothing for the others, and
    the sum of the weights ``[tokens, 1]``."""
    best, places = ir.Value(name=f"{name}.best"), ir.Value(name=f"{name}.chosen")
    count = builder.constant("experts_of_a_token", int64s(top_k))
    builder.op("TopK", [router, count], f"{name}.top", {"axis": -1}, outputs=[best, places])
    weights = builder.op("GatherElements", [mixing, places], f"{name}.weights", {"axis": -1})
    last = builder.constant("last_axis", int64s(-1))
    total = builder.op("ReduceSum", [weights, last], f"{name}.total", {"keepdims": 1})
    logs = builder.op("Log", [weights], f"{name}.log_weights")
    nothing = builder.constant("not_chosen", np.array([_NOT_CHOSEN]))
    shape = builder.op("Shape", [router], f"{name}.router_shape")
    ground = builder.op("Expand", [nothing, shape], f"{name}.ground")
    inputs = [ground, places, logs]
    return builder.op("ScatterElements", inputs, f"{name}.logits", {"axis": -1}), total


def _without_end(inputs: list[ir.Value | None]) -> list[ir.Value | None]:
    """Operator inputs without what is absent behind the last."""
    while inputs[-1] is None:
        inputs = inputs[:-1]
    return inputs


def store_experts(
    builder: GraphBuilder,
    name: str,
    experts: int,
    inner: Sequence[StoredPart],
    down: StoredPart,
    biases: Biases,
) -> StoredExperts:
    """Write the matrices of all experts of a layer.

    Args:
        builder: whose weight file takes the bytes.
        name: of the initializers.
        experts: how many.
        inner: gate and up, or up alone; all rows of the first expert, then of the second.
        down: the same for the way back.
        biases: of both.
    """
    layouts = [part.layout for part in (*inner, down)]
    blocks = [layout for layout in layouts if isinstance(layout, BlockLayout)]
    quantized = len(blocks) == len(layouts)
    # One size and one width for all: larger blocks are cut, shorter codes widened.
    size = min(layout.block_size for layout in blocks) if quantized else 0
    bits = max(layout.bits for layout in blocks) if quantized else 0

    def write(part_name: str, parts: Sequence[StoredPart]) -> Projection:
        writer = _Stack(builder, f"{name}.{part_name}", experts, parts)
        # The operator has codes of 4 and 8 bits.
        return writer.blocks(max(bits, 4), size) if quantized else writer.floats()

    stored = [write("inner", inner), write("down", [down])]
    with_bias = [
        projection
        if bias is None
        else replace(projection, bias=builder.weight(f"{name}.{part}.bias", bias))
        for projection, bias, part in zip(stored, biases, ("inner", "down"), strict=True)
    ]
    return StoredExperts(with_bias[0], with_bias[1], len(inner) > 1, size)


@dataclass(frozen=True)
class _Stack:
    """Writes the rows of several parts in turn: the first of each, the second of each, ..."""

    builder: GraphBuilder
    name: str
    experts: int
    parts: Sequence[StoredPart]

    def floats(self) -> Projection:
        columns = self.parts[0].source.columns
        chunks = (
            _in_turn(chunk)
            for chunk in zip(*(part.source.float_chunks() for part in self.parts), strict=True)
        )
        stored = self.builder.weight_file.append(chunks, 4 * self._rows * columns)
        shape = (self.experts, self._rows // self.experts, columns)
        return Projection(self.builder.stored(stored, self.name, ir.DataType.FLOAT, shape))

    def blocks(self, bits: int, size: int) -> Projection:
        scales: list[NDArray[np.float32]] = []
        zero_points: list[NDArray[np.uint8]] = []

        def codes() -> Iterator[NDArray[np.uint8]]:
            for several in zip(*(_blocks(part) for part in self.parts), strict=True):
                fitted = [blocks.split(size).widen(bits) for blocks in several]
                scales.append(_in_turn([blocks.scales for blocks in fitted]))
                zero_points.append(_in_turn([blocks.zero_points for blocks in fitted]))
                rows = _in_turn([blocks.codes for blocks in fitted])
                yield pack_codes(rows.reshape(len(rows), -1), bits)

        per_row = packed_size(self.parts[0].source.columns, bits)
        stored = self.builder.weight_file.append(codes(), self._rows * per_row)
        shape = (self.experts, self._rows // self.experts, per_row)
        return Projection(
            weights=self.builder.stored(stored, f"{self.name}.codes", ir.DataType.UINT8, shape),
            bits=bits,
            scales=self._rest("scales", scales),
            zero_points=self._zero_points(zero_points, bits),
        )

    @property
    def _rows(self) -> int:
        return sum(part.source.rows for part in self.parts)

    def _rest(self, what: str, chunks: Sequence[NDArray[Any]]) -> ir.Value:
        """Written piece by piece: the scales of hundreds of experts are not to be there twice."""
        weight_file = self.builder.weight_file
        stored = weight_file.append(chunks, sum(chunk.nbytes for chunk in chunks))
        shape = (self.experts, self._rows // self.experts, chunks[0].shape[-1])
        dtype = ir.DataType.from_numpy(chunks[0].dtype)
        return self.builder.stored(stored, f"{self.name}.{what}", dtype, shape)

    def _zero_points(self, chunks: list[NDArray[np.uint8]], bits: int) -> ir.Value | None:
        if all(np.all(chunk == zero_point_middle(bits)) for chunk in chunks):
            return None
        return self._rest("zero_points", [pack_codes(chunk, bits) for chunk in chunks])


def _blocks(part: StoredPart) -> Iterator[QuantizedBlocks]:
    assert part.encode is not None
    return part.source.block_chunks(part.encode)


def _in_turn(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Rows of arrays of equal shape, one of each in turn."""
    if len(parts) == 1:
        return parts[0]
    return np.stack(parts, axis=1).reshape(-1, *parts[0].shape[1:])
