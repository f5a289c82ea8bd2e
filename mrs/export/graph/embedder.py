"""EmbeddingSpec and tensors -> the embedding graph that docs/architecture.md defines."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from mrs.export.architectures.embedding_spec import EmbeddingSpec, EncoderSpec
from mrs.export.architectures.spec import DecoderSpec
from mrs.export.graph.decoder_body import decoder_body
from mrs.export.graph.encoder import encoder
from mrs.export.graph.norm import norm
from mrs.export.graph.pooling import finish, pool
from mrs.export.graph.weights import Weights


def build_embedder(
    spec: EmbeddingSpec, weights: Weights, on_layer: Callable[[], None] = lambda: None
) -> ir.Model:
    """Build the embedding graph, writing weights as it goes.

    Args:
        spec: what the model is made of.
        weights: its tensors, over an empty graph.
        on_layer: called after each layer, for progress.

    Raises:
        CorruptCheckpointError: a tensor is missing or has another shape.
        UnsupportedTensorTypeError: a tensor's storage type cannot be read.
        UnsupportedArchitectureError: there are tensors that the model has no use for.
    """
    builder, body, pooling = weights.builder, spec.body, spec.head.pooling
    ids = _value("input_ids", ir.DataType.INT64, "batch", "sequence")
    lengths = _value("sequence_lengths", ir.DataType.INT32, "batch")
    if isinstance(body, EncoderSpec):
        hidden = encoder(weights, body, ids, lengths, on_layer)
        pooled = pool(builder, pooling, hidden, ids, lengths)
    else:
        hidden = decoder_body(weights, body, ids, lengths, on_layer)
        # Tokens that are not taken need no norm.
        hidden = hidden if pooling.takes_one else _output_norm(weights, body, hidden)
        pooled = pool(builder, pooling, hidden, ids, lengths)
        pooled = _output_norm(weights, body, pooled) if pooling.takes_one else pooled
    embeddings = finish(weights, spec.head, pooled)
    embeddings.name = "embeddings"
    embeddings.shape = ir.Shape(("batch", spec.size))
    embeddings.type = ir.TensorType(ir.DataType.FLOAT)
    weights.refuse_unused()
    return builder.model(spec.architecture, [ids, lengths], [embeddings], producer="mrs")


def _output_norm(weights: Weights, body: DecoderSpec, x: ir.Value) -> ir.Value:
    return norm(weights, x, "output_norm", body.hidden_size, body.norm)


def _value(name: str, dtype: ir.DataType, *shape: int | str) -> ir.Value:
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(dtype))
