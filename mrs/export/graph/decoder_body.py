"""The blocks of a decoder as the body of an embedding model: one step, and no cache."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from mrs.errors import UnsupportedArchitectureError
from mrs.export.architectures.spec import DecoderSpec
from mrs.export.graph.attention import AttentionInputs, LayerCache
from mrs.export.graph.block import Block, Residual, check_projections
from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.positions import rope_tables
from mrs.export.graph.weights import Weights


def decoder_body(
    weights: Weights,
    spec: DecoderSpec,
    input_ids: ir.Value,
    lengths: ir.Value,
    on_layer: Callable[[], None],
) -> ir.Value:
    """The residual stream behind the last block, float32 ``[batch, sequence, hidden_size]``.

    Args:
        weights: of the checkpoint.
        spec: what the decoder is made of.
        input_ids: int64 ``[batch, sequence]``, padded on the right.
        lengths: int32 ``[batch]``, tokens of each row.
        on_layer: called after each layer.

    Raises:
        CorruptCheckpointError: a tensor is missing or has another shape.
        UnsupportedTensorTypeError: a tensor's storage type cannot be read.
        UnsupportedArchitectureError: of a family without rotary positions.
    """
    if spec.learned_positions:
        raise UnsupportedArchitectureError(
            f"An embedding model of the family {spec.architecture} is not supported.",
            hint="Export a model of a supported family.",
        )
    check_projections(weights, spec)
    shared = _attention_inputs(weights, spec, input_ids, lengths)
    residual = Residual(weights, spec, _embed(weights, spec, input_ids))
    for index, layer in enumerate(spec.layers):
        block = Block(weights, spec, layer, f"blk.{index}")
        block.append_to(residual, shared, _no_cache(index))
        on_layer()
    return residual.total()


def _attention_inputs(
    weights: Weights, spec: DecoderSpec, input_ids: ir.Value, lengths: ir.Value
) -> AttentionInputs:
    """Every row starts at its first token."""
    builder = weights.builder
    one = builder.constant("one_token", np.array(1, dtype=np.int32))
    last = builder.op("Sub", [lengths, one], "seqlens_k")
    return AttentionInputs(
        input_ids, lengths, last, _longest(builder, input_ids), rope_tables(weights, spec)
    )


def _longest(builder: GraphBuilder, input_ids: ir.Value) -> ir.Value:
    shape = builder.op("Shape", [input_ids], "width", {"start": 1, "end": 2})
    width = builder.op("Squeeze", [shape], "width.scalar")
    return builder.op("Cast", [width], "total_sequence_length", {"to": ir.DataType.INT32})


def _embed(weights: Weights, spec: DecoderSpec, input_ids: ir.Value) -> ir.Value:
    builder = weights.builder
    rows = weights.rows("token_embd", (spec.vocab_size, spec.hidden_size))
    table = weights.store("embedding.weight", [rows], gathered=True)
    hidden = table.gather(builder, input_ids, "embedding")
    return builder.scaled(hidden, spec.embedding_scale, "embedding")


def _no_cache(layer: int) -> LayerCache:
    """Nothing comes before, and what attention would keep is dropped."""
    present = (ir.Value(name=f"present.{layer}.{which}") for which in ("key", "value"))
    return LayerCache(None, None, *present)
