"""Where tokens stand: rotary tables and position ids, shared by all layers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mrs.errors import CorruptCheckpointError
from mrs.export.architectures.spec import DecoderSpec, FactorsScaling, LongRopeScaling, RopeSpec
from mrs.export.graph.builder import GraphBuilder, int64s
from mrs.export.graph.rope import (
    Wave,
    rope_amplitude,
    rope_frequencies,
    rope_table,
    rotated_with_padding,
)
from mrs.export.graph.weights import Weights

RopeTables = tuple[ir.Value, ir.Value]
"""Cosines and sines, float32 ``[positions, rotated / 2]`` each."""


def rope_tables(weights: Weights, spec: DecoderSpec) -> dict[RopeSpec, RopeTables]:
    """The cosines and sines of every position of the context, for each rotation in use.

    Raises:
        CorruptCheckpointError: a factor is not above 0, or their tensor has another length.
    """
    ropes = dict.fromkeys(layer.attention.rope for layer in spec.layers)
    distinct = [rope for rope in ropes if rope is not None]
    return {
        rope: _tables(weights, rope, spec.context_length, f"rope.{index}" if index else "rope")
        for index, rope in enumerate(distinct)
    }


def position_ids(
    builder: GraphBuilder,
    input_ids: ir.Value,
    query_seqlens: ir.Value,
    seqlens_k: ir.Value,
    context: int,
) -> ir.Value:
    """The position of every new token, int64 ``[batch, sequence]``.

    Padding and idle rows may lie beyond the context; their positions are clipped to it.
    """
    past = builder.op("Sub", [seqlens_k, query_seqlens], "past_minus_one")
    past = builder.op("Cast", [past], "past_minus_one.int64", {"to": ir.DataType.INT64})
    column = builder.op("Unsqueeze", [past, builder.constant("one_axis", int64s(1))], "past_column")
    shape = builder.op("Shape", [input_ids], "ids_width", {"start": 1, "end": 2})
    width = builder.op("Squeeze", [shape], "ids_width.scalar")
    one = builder.constant("position_step", np.array(1, dtype=np.int64))
    end = builder.op("Add", [width, one], "positions_end")
    new = builder.op("Range", [one, end, one], "new_positions")
    positions = builder.op("Add", [column, new], "unclipped_positions")
    first = builder.constant("first_position", np.array(0, dtype=np.int64))
    last = builder.constant("last_position", np.array(context - 1, dtype=np.int64))
    return builder.op("Clip", [positions, first, last], "positions")


def _tables(weights: Weights, rope: RopeSpec, context: int, name: str) -> RopeTables:
    if isinstance(rope.scaling, LongRopeScaling):
        rope = replace(rope, scaling=rope.scaling.at(context))
    frequencies = _frequencies(rope, context, _factors(weights, rope))
    amplitude = np.full(len(frequencies), rope_amplitude(rope))
    still = (rotated_with_padding(rope.dims) - rope.dims) // 2
    frequencies = np.concatenate([frequencies, np.zeros(still)])
    amplitude = np.concatenate([amplitude, np.ones(still)])
    shape = (context, len(frequencies))

    def table(wave: Wave, suffix: str) -> ir.Value:
        chunks = rope_table(wave, frequencies, context, amplitude)
        stored = weights.builder.weight_file.append(chunks, 4 * shape[0] * shape[1])
        return weights.builder.stored(stored, f"{name}.{suffix}", ir.DataType.FLOAT, shape)

    return table(np.cos, "cos"), table(np.sin, "sin")


def _frequencies(
    rope: RopeSpec, context: int, factors: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """The frequencies, if base and scaling go together; each for itself was in bounds."""
    try:
        with np.errstate(all="ignore"):
            frequencies = rope_frequencies(rope, context, factors)
    except ArithmeticError:
        frequencies = np.array([np.nan])
    if not np.isfinite(frequencies).all():
        raise CorruptCheckpointError(
            f"The rotary embedding with base {rope.base:g} and {rope.scaling} gives no finite "
            "frequencies.",
            hint="Download the model again, or convert it with a current converter.",
        )
    return frequencies


def _factors(weights: Weights, rope: RopeSpec) -> NDArray[np.float64] | None:
    scaling = rope.scaling
    if not isinstance(scaling, FactorsScaling):
        return None
    if scaling.tensor is None:
        return np.array(scaling.values, dtype=np.float64)
    factors = weights.vector(scaling.tensor, rope.dims // 2, stored_as="rotary table")
    if not np.all(factors > 0):
        raise CorruptCheckpointError(
            f"The tensor {scaling.tensor!r} holds {factors.min()}; frequencies are divided by it.",
            hint="Download the model again, or convert it with a current converter.",
        )
    return factors.astype(np.float64)
