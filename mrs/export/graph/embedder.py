"""EmbeddingSpec and tensors -> the graph for embeddings or scores, as docs/architecture.md says."""

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
    """Build the embedding graph, or that of a reranker, writing weights as it goes.

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
    inputs, second_start = [ids, lengths], None
    if spec.second_type:
        second_start = _value("second_start", ir.DataType.INT32, "batch")
        inputs.append(second_start)
    if isinstance(body, EncoderSpec):
        hidden = encoder(weights, body, ids, lengths, on_layer, second_start)
        pooled = pool(builder, pooling, hidden, ids, lengths)
    else:
        hidden = decoder_body(weights, body, ids, lengths, on_layer)
        # Tokens that are not taken need no norm.
        hidden = hidden if pooling.takes_one else _output_norm(weights, body, hidden)
        pooled = pool(builder, pooling, hidden, ids, lengths)
        pooled = _output_norm(weights, body, pooled) if pooling.takes_one else pooled
    output = finish(weights, spec.head, pooled)
    ranks = spec.head.score is not None
    output.name = "scores" if ranks else "embeddings"
    output.shape = ir.Shape(("batch",) if ranks else ("batch", spec.size))
    output.type = ir.TensorType(ir.DataType.FLOAT)
    weights.refuse_unused()
    return builder.model(spec.architecture, inputs, [output], producer="mrs")


def _output_norm(weights: Weights, body: DecoderSpec, x: ir.Value) -> ir.Value:
    return norm(weights, x, "output_norm", body.hidden_size, body.norm)


def _value(name: str, dtype: ir.DataType, *shape: int | str) -> ir.Value:
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(dtype))
